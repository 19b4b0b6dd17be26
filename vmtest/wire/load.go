package wire

import "time"

// LoadReport is what the load generator saw. Every number but those of data and
// gaps counts what happened to a client, and only OK is a good end.
type LoadReport struct {
	New     Outcomes // connections opened, used for one exchange and closed
	Streams Outcomes // connections kept open as long as the load lasts

	StreamBytes int64         // sent on the streams and come back unchanged
	NewGap      time.Duration // longest time in which no new connection was served
	StreamGap   time.Duration // longest time that data of a stream was under way
	Errors      []string      // the first few, each with the time since the load began
}

// Outcomes counts connections by how they ended.
type Outcomes struct {
	OK      int
	Refused int // nobody listened
	Reset   int // an answer was cut off by an error
	Cut     int // the stream ended before all data had come back
	Wrong   int // other data came back
	Timeout int // no progress within the patience of the client
}

// Bad is the number of connections that did not end well.
func (o Outcomes) Bad() int { return o.Refused + o.Reset + o.Cut + o.Wrong + o.Timeout }
