//go:build race

package testbed

// raceEnabled says that the test, and so the binary under test, has the race
// detector.
const raceEnabled = true
