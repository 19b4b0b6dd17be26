package keeper

import "time"

// complaints bounds what others can have this process log: one line a second.
type complaints struct {
	next   time.Time
	unsaid int
}

// complain logs what another process does wrong.
func (k *keeper) complain(message string, attrs ...any) {
	c, now := &k.complaints, time.Now()
	if now.Before(c.next) {
		c.unsaid++
		return
	}
	if c.unsaid > 0 {
		attrs = append(attrs, "others_not_logged", c.unsaid)
	}
	k.log.Warn(message, attrs...)
	*c = complaints{next: now.Add(time.Second)}
}
