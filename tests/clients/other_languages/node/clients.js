// KafkaJS against a broker, by the same words as the clients in Go:
//
//     node clients.js produce  BOOTSTRAP TOPIC CODEC FIRST COUNT
//     node clients.js consume  BOOTSTRAP TOPIC GROUP
//     node clients.js assigned BOOTSTRAP TOPIC
//
// It has no consumer without a group: `assigned` is the only member of one that begins at offset 0.
"use strict";

const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

const PARTITIONS = 4;
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };

async function produce(kafka, topic, codec, first, count) {
  const admin = kafka.admin();
  await admin.connect();
  const asked = { topic, numPartitions: PARTITIONS, replicationFactor: -1 };
  await admin.createTopics({ topics: [asked], waitForLeaders: true });
  await admin.disconnect();
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = [];
  for (let at = first; at < first + count; at += 1) {
    messages.push({ key: `k${at}`, value: `v${at}`, headers: { by: "kafkajs" } });
  }
  await producer.send({ topic, acks: -1, compression: CODECS[codec], messages });
  await producer.disconnect();
}

async function consume(kafka, topic, groupId) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 500 });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      const [header = "-"] = Object.values(message.headers ?? {});
      console.log(`read ${partition} ${message.offset} ${message.key} ${message.value} ${header}`);
    },
  });
  await new Promise((stopped) => process.stdin.once("data", stopped));
  process.stdin.unref();
  await consumer.disconnect();
}

async function main([act, bootstrap, topic, ...rest]) {
  const brokers = bootstrap.split(",");
  const kafka = new Kafka({ brokers, clientId: "kafkajs", logLevel: logLevel.NOTHING });
  if (act === "produce") {
    await produce(kafka, topic, rest[0], Number(rest[1]), Number(rest[2]));
  } else if (act === "consume") {
    await consume(kafka, topic, rest[0]);
  } else if (act === "assigned") {
    await consume(kafka, topic, `reader of ${topic}`);
  } else {
    throw new Error(`no act ${act}`);
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
