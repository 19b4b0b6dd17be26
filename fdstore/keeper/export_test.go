package keeper

import "time"

// SetPause makes every pause before a restart as long.
func SetPause(pause time.Duration) {
	firstPause, mostPause = pause, pause
}
