// Programs that keep their state in compacted topics, by Kafka's own libraries.
//
//     table   PROPERTIES STATE   a Streams table of the topic `facts`: its store is restored from
//                                the changelog that Streams makes and compacts
//     schemas PROPERTIES STATE   a reader of `_schemas` as a schema registry is one: from offset 0,
//                                ready once it has read a record that it wrote itself, then along
//
// Each writes to the file STATE, whenever it changes: records read to restore it, entries, and the
// exclusive or of the SHA-256 of each entry (key, a zero byte, value), in hexadecimal digits.
// `table` ends with Streams, and shows its threads when it had no state for a minute: both would
// otherwise look like a program that is slow.

import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

public final class ChangelogUsers {
    private static final Duration LOOK = Duration.ofMillis(200);
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int ENDED_BY_AN_ERROR = 3;
    private static final String STORE = "last";

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream from = new FileInputStream(arguments[1])) {
            properties.load(from);
        }
        Path state = Path.of(arguments[2]);
        if (arguments[0].equals("table")) {
            keepTable(properties, state);
        } else {
            followSchemas(properties, state);
        }
    }

    private static void keepTable(Properties properties, Path state) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.table(
            "facts",
            Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()),
            Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as(STORE)
                .withKeySerde(Serdes.ByteArray())
                .withValueSerde(Serdes.ByteArray()));
        AtomicLong restored = new AtomicLong();
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition place, String store, long start, long end) {}

            @Override
            public void onBatchRestored(TopicPartition place, String store, long end, long count) {
                restored.addAndGet(count);
            }

            @Override
            public void onRestoreEnd(TopicPartition place, String store, long total) {}
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(ENDED_BY_AN_ERROR); // the log says which
            }
        });
        streams.start();
        Instant shownAt = Instant.now();
        while (true) {
            Thread.sleep(LOOK.toMillis());
            try {
                ReadOnlyKeyValueStore<byte[], byte[]> store = streams.store(
                    StoreQueryParameters.fromNameAndType(
                        STORE, QueryableStoreTypes.<byte[], byte[]>keyValueStore()));
                Digest digest = new Digest();
                try (KeyValueIterator<byte[], byte[]> entries = store.all()) {
                    while (entries.hasNext()) {
                        KeyValue<byte[], byte[]> entry = entries.next();
                        digest.add(entry.key, entry.value);
                    }
                }
                write(state, restored.get() + " " + digest);
                shownAt = Instant.now();
            } catch (InvalidStateStoreException error) {
                // It rebalances, or restores: what takes it so long?
                if (shownAt.plus(LONG).isBefore(Instant.now())) {
                    shownAt = Instant.now();
                    showThreads(streams);
                }
            }
        }
    }

    private static void showThreads(KafkaStreams streams) {
        System.out.println("no state for " + LONG + ": " + streams.state());
        System.out.println(streams.metadataForLocalThreads());
        Thread.getAllStackTraces().forEach((thread, trace) -> {
            System.out.println(thread);
            Arrays.stream(trace).forEach(place -> System.out.println("    " + place));
        });
    }

    private static void followSchemas(Properties properties, Path state) throws Exception {
        TopicPartition place = new TopicPartition("_schemas", 0);
        Map<Bytes, byte[]> values = new HashMap<>();
        long readyAt = -1;
        byte[] noop = "{\"keytype\":\"NOOP\",\"magic\":0}".getBytes("UTF-8");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            readyAt = producer.send(new ProducerRecord<>("_schemas", 0, noop, new byte[0]))
                .get().offset();
        }
        long read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            while (true) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(LOOK)) {
                    read++;
                    if (Arrays.equals(one.key(), noop)) {
                        continue;
                    }
                    if (one.value() == null) {
                        values.remove(Bytes.wrap(one.key()));
                    } else {
                        values.put(Bytes.wrap(one.key()), one.value());
                    }
                }
                if (consumer.position(place) > readyAt) {
                    Digest digest = new Digest();
                    for (Map.Entry<Bytes, byte[]> entry : values.entrySet()) {
                        digest.add(entry.getKey().get(), entry.getValue());
                    }
                    write(state, read + " " + digest);
                }
            }
        }
    }

    private static void write(Path state, String line) throws Exception {
        Path beside = state.resolveSibling(state.getFileName() + ".new");
        Files.writeString(beside, line);
        Files.move(beside, state, StandardCopyOption.ATOMIC_MOVE);
    }

    private static final class Digest {
        private final byte[] sum = new byte[32];
        private long entries;

        void add(byte[] key, byte[] value) throws Exception {
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            hash.update(key);
            hash.update((byte) 0);
            byte[] one = hash.digest(value);
            for (int i = 0; i < sum.length; i++) {
                sum[i] ^= one[i];
            }
            entries++;
        }

        @Override
        public String toString() {
            return entries + " " + HexFormat.of().formatHex(sum);
        }
    }
}
