package handover

import (
	"context"
	"errors"
	"time"
)

// lastLook is by how much a request outlasts its deadline. A process that was stopped
// itself (SIGSTOP, a debugger, a host that was frozen) finds its time over, and the answer
// not read yet. The other side is not to be taken for hung, and ended, for that.
const lastLook = time.Second

// patiently makes a call that waits, and once more if its time is over. The call must have
// done nothing then.
func patiently(ctx context.Context, call func(ctx context.Context) error) error {
	err := call(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	return call(ctx)
}
