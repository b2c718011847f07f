package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

type segmentio struct{ addresses []string }

var segmentioCodecs = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

func (s segmentio) produce(topic, codec string, first, count int) {
	ctx := context.Background()
	admin := &kafka.Client{Addr: kafka.TCP(s.addresses...)}
	created, err := admin.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1}},
	})
	fail(err)
	if err = created.Errors[topic]; !errors.Is(err, kafka.TopicAlreadyExists) {
		fail(err)
	}
	writer := &kafka.Writer{
		Addr:         kafka.TCP(s.addresses...),
		Topic:        topic,
		Balancer:     &kafka.Hash{},
		RequiredAcks: kafka.RequireAll,
		Compression:  segmentioCodecs[codec],
		BatchTimeout: 10 * time.Millisecond,
	}
	messages := make([]kafka.Message, 0, count)
	for at := first; at < first+count; at++ {
		messages = append(messages, kafka.Message{
			Key:     fmt.Appendf(nil, "k%d", at),
			Value:   fmt.Appendf(nil, "v%d", at),
			Headers: []kafka.Header{{Key: "by", Value: []byte("segmentio")}},
		})
	}
	fail(writer.WriteMessages(ctx, messages...))
	fail(writer.Close())
}

func (s segmentio) consume(topic, group string) {
	s.read(kafka.ReaderConfig{GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset})
}

func (s segmentio) assigned(topic string) {
	s.read(kafka.ReaderConfig{Topic: topic, Partition: 0})
}

// A group's member commits each record that it has shown.
func (s segmentio) read(config kafka.ReaderConfig) {
	config.Brokers = s.addresses
	config.MaxWait = 500 * time.Millisecond
	reader := kafka.NewReader(config)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-stopped(); cancel() }()
	for {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			break
		}
		fail(err)
		var header []byte
		if len(message.Headers) > 0 {
			header = message.Headers[0].Value
		}
		show(int32(message.Partition), message.Offset, message.Key, message.Value, header)
		if config.GroupID != "" {
			fail(reader.CommitMessages(context.Background(), message))
		}
	}
	fail(reader.Close())
}
