package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ addresses []string }

var franzCodecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (f franz) client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(f.addresses...))...)
	fail(err)
	return made
}

func (f franz) produce(topic, codec string, first, count int) {
	ctx := context.Background()
	made := f.client(kgo.ProducerBatchCompression(franzCodecs[codec]))
	defer made.Close()
	_, err := kadm.NewClient(made).CreateTopic(ctx, partitions, -1, nil, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		fail(err)
	}
	for at := first; at < first+count; at++ {
		made.Produce(ctx, &kgo.Record{
			Topic:   topic,
			Key:     fmt.Appendf(nil, "k%d", at),
			Value:   fmt.Appendf(nil, "v%d", at),
			Headers: []kgo.RecordHeader{{Key: "by", Value: []byte("franz")}},
		}, func(_ *kgo.Record, err error) { fail(err) })
	}
	fail(made.Flush(ctx))
}

func (f franz) consume(topic, group string) {
	f.read(
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitInterval(200*time.Millisecond),
	)
}

func (f franz) assigned(topic string) {
	f.read(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
}

// A group's member commits what it has polled when it closes.
func (f franz) read(options ...kgo.Opt) {
	made := f.client(options...)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-stopped(); cancel() }()
	for ctx.Err() == nil {
		fetches := made.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				fail(err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			var header []byte
			if len(r.Headers) > 0 {
				header = r.Headers[0].Value
			}
			show(r.Partition, r.Offset, r.Key, r.Value, header)
		})
	}
	if _, generation := made.GroupMetadata(); generation >= 0 {
		fail(made.CommitUncommittedOffsets(context.Background()))
	}
	made.Close()
}
