package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

type saramaClient struct{ addresses []string }

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

func (s saramaClient) produce(topic, codec string, first, count int) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Compression = saramaCodecs[codec]
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	admin, err := sarama.NewClusterAdmin(s.addresses, config)
	fail(err)
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}
	if err = admin.CreateTopic(topic, detail, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
		fail(err)
	}
	fail(admin.Close())
	producer, err := sarama.NewSyncProducer(s.addresses, config)
	fail(err)
	messages := make([]*sarama.ProducerMessage, 0, count)
	for at := first; at < first+count; at++ {
		messages = append(messages, &sarama.ProducerMessage{
			Topic:   topic,
			Key:     sarama.StringEncoder(fmt.Sprintf("k%d", at)),
			Value:   sarama.StringEncoder(fmt.Sprintf("v%d", at)),
			Headers: []sarama.RecordHeader{{Key: []byte("by"), Value: []byte("sarama")}},
		})
	}
	fail(producer.SendMessages(messages))
	fail(producer.Close())
}

func (s saramaClient) consume(topic, group string) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	member, err := sarama.NewConsumerGroup(s.addresses, group, config)
	fail(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-stopped(); cancel() }()
	for ctx.Err() == nil {
		// Returns at each rebalance, and when it was cancelled, its marks committed.
		if err = member.Consume(ctx, []string{topic}, shown{}); ctx.Err() == nil {
			fail(err)
		}
	}
	fail(member.Close())
}

func (s saramaClient) assigned(topic string) {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Return.Errors = true
	consumer, err := sarama.NewConsumer(s.addresses, config)
	fail(err)
	part, err := consumer.ConsumePartition(topic, 0, 0)
	fail(err)
	ended := stopped()
	for {
		select {
		case message := <-part.Messages():
			showMessage(message)
		case failure := <-part.Errors():
			fail(failure)
		case <-ended:
			return
		}
	}
}

// What a member does with the records of a partition.
type shown struct{}

func (shown) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (shown) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (shown) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			showMessage(message)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func showMessage(message *sarama.ConsumerMessage) {
	var header []byte
	if len(message.Headers) > 0 {
		header = message.Headers[0].Value
	}
	show(message.Partition, message.Offset, message.Key, message.Value, header)
}
