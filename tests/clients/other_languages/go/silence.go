package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Longest times without a sign of each partition.
type gaps struct {
	mutex sync.Mutex
	last  []time.Time
	worst []time.Duration
}

func newGaps(partitions int) *gaps {
	return &gaps{last: make([]time.Time, partitions), worst: make([]time.Duration, partitions)}
}

func (g *gaps) heard(partition int32) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := time.Now()
	if !g.last[partition].IsZero() {
		g.worst[partition] = max(g.worst[partition], now.Sub(g.last[partition]))
	}
	g.last[partition] = now
}

func (g *gaps) take() int64 {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now, most := time.Now(), time.Duration(0)
	for at, last := range g.last {
		if last.IsZero() {
			return -1
		}
		most = max(most, g.worst[at], now.Sub(last))
	}
	clear(g.worst)
	return most.Milliseconds()
}

// A producer and a member of a group, until stdin ends.
func (f franz) silence(topic string, partitions int) {
	acknowledged, read := newGaps(partitions), newGaps(partitions)
	go f.produceOneByOne(topic, partitions, acknowledged)
	go f.readAll(topic, read)
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		fmt.Println(acknowledged.take(), read.take())
	}
}

func (f franz) produceOneByOne(topic string, partitions int, acknowledged *gaps) {
	made := f.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	value := make([]byte, 100)
	for number := 0; ; number++ {
		partition := int32(number % partitions)
		record := &kgo.Record{Topic: topic, Partition: partition, Value: value}
		made.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err == nil {
				acknowledged.heard(partition)
			}
		})
		time.Sleep(time.Millisecond)
	}
}

func (f franz) readAll(topic string, read *gaps) {
	made := f.client(
		kgo.ConsumerGroup("silence-franz"),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
	)
	for {
		made.PollFetches(context.Background()).EachRecord(func(record *kgo.Record) {
			read.heard(record.Partition)
		})
	}
}
