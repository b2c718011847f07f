import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A producer and a member of a group, as benchmarks/peers/silence.py says: Silence BOOTSTRAP TOPIC PARTITIONS.
 */
public class Silence {
    static class Gaps {
        private final long[] last;
        private final long[] worst;

        Gaps(int partitions) {
            last = new long[partitions];
            worst = new long[partitions];
        }

        synchronized void heard(int partition) {
            long now = System.nanoTime();
            if (last[partition] != 0) {
                worst[partition] = Math.max(worst[partition], now - last[partition]);
            }
            last[partition] = now;
        }

        synchronized long takeMillis() {
            long now = System.nanoTime();
            long most = 0;
            for (int at = 0; at < last.length; at++) {
                if (last[at] == 0) {
                    return -1;
                }
                most = Math.max(most, Math.max(worst[at], now - last[at]));
            }
            Arrays.fill(worst, 0);
            return most / 1_000_000;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        Gaps acknowledged = new Gaps(partitions);
        Gaps read = new Gaps(partitions);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        String bytes = "org.apache.kafka.common.serialization.ByteArray";
        settings.put("key.serializer", bytes + "Serializer");
        settings.put("value.serializer", bytes + "Serializer");
        settings.put("key.deserializer", bytes + "Deserializer");
        settings.put("value.deserializer", bytes + "Deserializer");
        settings.put("group.id", "silence-java");
        settings.put("auto.offset.reset", "latest");
        daemon(() -> produce(settings, topic, partitions, acknowledged));
        daemon(() -> consume(settings, topic, read));
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        while (asked.readLine() != null) {
            System.out.println(acknowledged.takeMillis() + " " + read.takeMillis());
        }
        Runtime.getRuntime().halt(0);
    }

    static void daemon(Runnable run) {
        Thread thread = new Thread(run);
        thread.setDaemon(true);
        thread.start();
    }

    static void produce(Properties settings, String topic, int partitions, Gaps acknowledged) {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        byte[] value = new byte[100];
        for (int number = 0;; number++) {
            int partition = number % partitions;
            producer.send(new ProducerRecord<>(topic, partition, null, value), (done, error) -> {
                if (error == null) {
                    acknowledged.heard(partition);
                }
            });
            try {
                Thread.sleep(1);
            } catch (InterruptedException end) {
                return;
            }
        }
    }

    static void consume(Properties settings, String topic, Gaps read) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(topic));
        while (true) {
            consumer.poll(Duration.ofMillis(100)).forEach(record -> read.heard(record.partition()));
        }
    }
}
