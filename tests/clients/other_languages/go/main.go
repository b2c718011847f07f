// Clients in Go against a broker: franz-go, Sarama and kafka-go, each by the same words.
//
//	clients NAME produce  BOOTSTRAP TOPIC CODEC FIRST COUNT
//	clients NAME consume  BOOTSTRAP TOPIC GROUP
//	clients NAME assigned BOOTSTRAP TOPIC
//	clients franz silence BOOTSTRAP TOPIC PARTITIONS
//
// NAME is franz, sarama or segmentio.
// `produce` creates the topic with four partitions unless it is there, and sends records with key
// k<number>, value v<number> and a header. `consume` is a member of the group until it is sent a
// line, and prints `read PARTITION OFFSET KEY VALUE HEADER` per record. `assigned` does the same without a
// group, for partition 0 from offset 0 on. `silence` is what benchmarks/peers/silence.py says.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const partitions = 4

type client interface {
	produce(topic, codec string, first, count int)
	consume(topic, group string)
	assigned(topic string)
}

func main() {
	name, act, bootstrap, topic, rest := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5:]
	addresses := strings.Split(bootstrap, ",")
	var chosen client
	switch name {
	case "franz":
		chosen = franz{addresses}
	case "sarama":
		chosen = saramaClient{addresses}
	case "segmentio":
		chosen = segmentio{addresses}
	default:
		fail(fmt.Errorf("no client %q", name))
	}
	switch act {
	case "produce":
		chosen.produce(topic, rest[0], number(rest[1]), number(rest[2]))
	case "consume":
		chosen.consume(topic, rest[0])
	case "assigned":
		chosen.assigned(topic)
	case "silence":
		franz{addresses}.silence(topic, number(rest[0]))
	default:
		fail(fmt.Errorf("no act %q", act))
	}
}

// Closed at the first line of stdin, or at its end.
func stopped() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		close(ended)
	}()
	return ended
}

func show(partition int32, offset int64, key, value []byte, header []byte) {
	if header == nil {
		header = []byte("-")
	}
	fmt.Printf("read %d %d %s %s %s\n", partition, offset, key, value, header)
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	fail(err)
	return found
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
