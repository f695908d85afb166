package shoal

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"sync"

	"shoal/fsdp"
	"shoal/internal/version"
	"shoal/peer"
)

// loopback carries what a peer gives in a rehearsal over encrypted streams to another host of this process, so that a plan
// knows what the network costs the processor: what is sent and received here is as much as the peer would send, and receive
// from others. Other peers have a stream for parameters and one for gradients, and share them where there are more than
// loopbackLanes: a connection has room for some tens of streams.
type loopback struct {
	near, far *peer.Host
	lanes     map[laneKey]*lane
	life      context.Context
	end       context.CancelFunc
	busy      sync.WaitGroup
}

type laneKey struct {
	number     int // the rank's, modulo loopbackLanes
	parameters bool
}

const (
	laneProtocol = "/shoal/1/rehearsal"
	laneHeader   = 52      // bytes before a chunk and of an acknowledgement, as in a run
	laneChunk    = 1 << 20 // bytes that are sent at once

	loopbackLanes = 8 // of each class
)

// newLoopback opens the streams to so many others, whose ranks are all below size.
func newLoopback(ctx context.Context, rank, size int) (_ *loopback, err error) {
	l := &loopback{lanes: map[laneKey]*lane{}}
	l.life, l.end = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			l.Close()
			err = fmt.Errorf("connect this process with itself: %w", err)
		}
	}()
	cfg := peer.Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Version: version.Version}
	if l.near, err = peer.New(l.life, cfg); err != nil {
		return nil, err
	}
	if l.far, err = peer.New(l.life, cfg); err != nil {
		return nil, err
	}
	l.far.Handle(laneProtocol, takeAll)
	for i := range min(size, loopbackLanes) {
		for _, parameters := range []bool{true, false} {
			if i == rank && size <= loopbackLanes {
				continue
			}
			conn, err := l.near.Open(l.life, l.far.Self(), l.far.Addrs(), laneProtocol)
			if err != nil {
				return nil, err
			}
			x := &lane{conn: conn, queue: make(chan parcel, 64), sent: make(chan parcel, 64)}
			l.lanes[laneKey{i, parameters}] = x
			l.busy.Go(func() { x.write(l.life) })
			l.busy.Go(func() { x.await(l.life) })
		}
	}
	return l, nil
}

// Close ends all streams. Nothing may be carried any more.
func (l *loopback) Close() {
	l.end()
	for _, x := range l.lanes {
		x.conn.Close()
	}
	l.busy.Wait()
	for _, h := range []*peer.Host{l.near, l.far} {
		if h != nil {
			h.Close()
		}
	}
}

// carry gives g to all who get it; wait blocks until it is there.
func (l *loopback) carry(g fsdp.Given) (wait func() error) {
	var sent []parcel
	for _, rank := range g.To {
		p := parcel{g.Data, make(chan error, 1)}
		select {
		case l.lanes[laneKey{rank % loopbackLanes, g.Parameters}].queue <- p:
			sent = append(sent, p)
		case <-l.life.Done():
		}
	}
	return func() (err error) {
		for _, p := range sent {
			select {
			case e := <-p.done:
				err = errors.Join(err, e)
			case <-l.life.Done():
				return context.Cause(l.life)
			}
		}
		return err
	}
}

// parcel is what one other gets.
type parcel struct {
	data []byte
	done chan error
}

// lane is a stream to one other.
type lane struct {
	conn        net.Conn
	queue, sent chan parcel
}

// write sends what is queued, chunk by chunk, each behind a header with its length, what is left, and a checksum.
func (x *lane) write(ctx context.Context) {
	frame := make([]byte, laneHeader+laneChunk)
	for {
		var p parcel
		select {
		case p = <-x.queue:
		case <-ctx.Done():
			return
		}
		select {
		case x.sent <- p:
		case <-ctx.Done():
			return
		}
		for left := p.data; len(left) > 0; {
			n := copy(frame[laneHeader:], left)
			left = left[n:]
			binary.LittleEndian.PutUint32(frame, uint32(n))
			binary.LittleEndian.PutUint64(frame[4:], uint64(len(left)))
			binary.LittleEndian.PutUint32(frame[12:], crc32.Checksum(frame[laneHeader:laneHeader+n], castagnoli))
			if _, err := x.conn.Write(frame[:laneHeader+n]); err != nil {
				x.conn.Close() // which the other goroutine sees
				break
			}
		}
	}
}

// await takes the acknowledgements of what was sent.
func (x *lane) await(ctx context.Context) {
	ack := make([]byte, laneHeader)
	for {
		select {
		case p := <-x.sent:
			_, err := io.ReadFull(x.conn, ack)
			p.done <- err
		case <-ctx.Done():
			return
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// takeAll is the far side of a lane: it checks each chunk, and acknowledges the last one of each parcel.
func takeAll(_ string, conn net.Conn) {
	defer conn.Close()
	in, header, data := bufio.NewReaderSize(conn, laneHeader), make([]byte, laneHeader), make([]byte, laneChunk)
	for {
		if _, err := io.ReadFull(in, header); err != nil {
			return
		}
		n := min(binary.LittleEndian.Uint32(header), laneChunk)
		if _, err := io.ReadFull(in, data[:n]); err != nil || crc32.Checksum(data[:n], castagnoli) != binary.LittleEndian.Uint32(header[12:]) {
			return
		}
		if binary.LittleEndian.Uint64(header[4:]) == 0 {
			if _, err := conn.Write(header); err != nil {
				return
			}
		}
	}
}
