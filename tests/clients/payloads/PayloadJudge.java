// Reads record batches as Apache Kafka does. One process for all of them.
//
// stdin:  per batch: length i32, then the batch
// stdout: per batch one line of three fields:
//         what the consumer says of the batch: the digest of its records, or the error's class
//         what the broker says: "taken", or the name of its code in the protocol and the error's class
//         what the consumer says of what the broker would store; "-" where it stores nothing

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.DigestOutputStream;
import java.security.MessageDigest;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

public final class PayloadJudge {
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);

    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferSupplier buffers = BufferSupplier.create();
        while (true) {
            byte[] batch;
            try {
                batch = new byte[in.readInt()];
            } catch (EOFException end) {
                break;
            }
            in.readFully(batch);
            judge(batch, buffers, out);
        }
        out.flush();
    }

    private static void judge(byte[] batch, BufferSupplier buffers, PrintStream out) {
        String stored = "-", broker = "taken";
        String consumer = consumed(records(batch), buffers);
        try {
            stored = consumed(validated(records(batch.clone()), buffers), buffers);
        } catch (Throwable error) {
            broker = Errors.forException(error).name() + ":" + nameOf(error);
        }
        out.println(consumer + " " + broker + " " + stored);
    }

    private static MemoryRecords records(byte[] batch) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(batch));
    }

    /** As UnifiedLog does: lengths and checksums first, then the records. */
    private static MemoryRecords validated(MemoryRecords records, BufferSupplier buffers) {
        CompressionType type = CompressionType.NONE;
        int bytes = 0;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            type = batch.compressionType();
            bytes += batch.sizeInBytes();
        }
        if (bytes == 0 || bytes != records.sizeInBytes())
            throw new IllegalArgumentException("not whole batches");
        LogValidator validator = new LogValidator(records, PARTITION, Time.SYSTEM, type,
            Compression.of(type).build(), false, RecordBatch.CURRENT_MAGIC_VALUE,
            TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT);
        return validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(0), new NoMetrics(), buffers).validatedRecords();
    }

    /** As CompletedFetch does. */
    private static String consumed(MemoryRecords records, BufferSupplier buffers) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            DataOutputStream to = new DataOutputStream(
                new DigestOutputStream(OutputStream.nullOutputStream(), digest));
            for (RecordBatch batch : records.batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> each = batch.streamingIterator(buffers)) {
                    while (each.hasNext())
                        add(each.next(), to);
                }
            }
            return HexFormat.of().formatHex(digest.digest()).substring(0, 32);
        } catch (Throwable error) {
            return nameOf(error);
        }
    }

    private static void add(Record record, DataOutputStream to) throws IOException {
        record.ensureValid();
        to.writeLong(record.offset());
        to.writeLong(record.timestamp());
        add(bytesOf(record.key()), to);
        add(bytesOf(record.value()), to);
        to.writeInt(record.headers().length);
        for (Header header : record.headers()) {
            add(header.key().getBytes(StandardCharsets.UTF_8), to);
            add(header.value(), to);
        }
    }

    private static void add(byte[] data, DataOutputStream to) throws IOException {
        to.writeInt(data == null ? -1 : data.length);
        if (data != null)
            to.write(data);
    }

    private static byte[] bytesOf(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }

    /** Of the innermost cause too: wrappers say little. */
    private static String nameOf(Throwable error) {
        String name = error.getClass().getSimpleName();
        Throwable cause = error;
        while (cause.getCause() != null && cause.getCause() != cause)
            cause = cause.getCause();
        return cause == error ? name : name + ":" + cause.getClass().getSimpleName();
    }

    private static final class NoMetrics implements LogValidator.MetricsRecorder {
        @Override public void recordInvalidMagic() { }
        @Override public void recordInvalidOffset() { }
        @Override public void recordInvalidSequence() { }
        @Override public void recordInvalidChecksums() { }
        @Override public void recordNoKeyCompactedTopic() { }
    }
}
