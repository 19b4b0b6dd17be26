package survival

import (
	"errors"
	"fmt"
)

// verdict is what became of a connection.
type verdict uint8

const (
	asPlanned verdict = iota
	inWindow          // the child was killed between accept4 and sendmsg
	unkept            // Multipath TCP: it ends with the process, and nothing is promised
	tolerated         // it was cut, as the test expects
)

// judge compares what both ends have seen with the plan. p.mu is held.
func (p *plan) judge() (verdict, error) {
	c, s := p.outcome[client], p.outcome[server]
	for _, o := range p.outcome {
		if o != nil && o.wrong != nil {
			return 0, o.wrong
		}
	}
	switch {
	case p.mptcp:
		return unkept, nil
	case c.stuck() || s.stuck():
		return 0, errors.New("it was stuck")
	case p.seen > 1:
		return 0, fmt.Errorf("%d servers were given it", p.seen)
	case p.seen == 0 && c.received == 0 && p.resets == client:
		return asPlanned, nil
	case p.seen == 0 && c.received == 0 && (isEnd(c.end) || isReset(c.end) || isReset(c.refusal) || isBoth(c.end)):
		return inWindow, nil
	case p.seen == 0:
		return 0, errors.New("no server was given it")
	case p.resets != nobody:
		return asPlanned, p.judgeReset()
	}
	for i, o := range []*outcome{c, s} {
		switch other := p.ends[1-i].size; {
		case o.refusal != nil || !isEnd(o.end):
			return 0, errors.New("it was cut")
		case o.received != other:
			return 0, fmt.Errorf("a stream of %d bytes was ended after %d", other, o.received)
		}
	}
	return asPlanned, nil
}

// wrong tells whether a byte was.
func (p *plan) wrong() bool {
	return p.outcome[client].wrong != nil || p.outcome[server] != nil && p.outcome[server].wrong != nil
}

func (o *outcome) stuck() bool { return o != nil && (isStuck(o.end) || isStuck(o.refusal)) }

// judgeReset looks at what the other end has seen of a reset.
func (p *plan) judgeReset() error {
	x, y := p.outcome[p.resets], p.outcome[1-p.resets]
	networks := [2]string{p.route.network, p.route.to}
	from, to := networks[p.resets], networks[1-p.resets]
	told := isReset(y.end) || isReset(y.refusal)
	switch {
	case x.refusal != nil || isEnd(x.end) || isReset(x.end):
		return errors.New("it was cut before its peer has reset it")
	case y.received > x.sent:
		return errors.New("more came than was sent")
	case from == "unix" && y.received != x.sent:
		return fmt.Errorf("a Unix socket was closed after %d bytes, and %d came", x.sent, y.received)
	case from == "unix" || to == "unix" || told:
		return nil // a Unix socket has no reset of its own; its peer sees the end
	case p.ends[p.resets].first && y.received == x.sent && (isEnd(y.end) && y.refusal != nil || isBoth(y.end)):
		return nil
	}
	return errors.New("a reset came as the end of a stream")
}

// text is what both ends have seen.
func (p *plan) text() string {
	t := fmt.Sprintf("%s; %d servers were given it", p, p.seen)
	for i, name := range []string{"client", "server"} {
		o := p.outcome[i]
		if o == nil {
			t += fmt.Sprintf("\n\t%s: not over", name)
			continue
		}
		t += fmt.Sprintf("\n\t%s: sent %d, then %v; received %d, then %v; in life %d", name, o.sent, o.refusal, o.received, o.end, o.life)
	}
	return t
}
