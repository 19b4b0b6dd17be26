// Package wire is what the two halves of the harness say to each other: the
// host's package machine, and the agent inside the guest.
//
// They talk net/rpc over one stream, a virtio serial port in QEMU and a Unix
// socket in systemd-nspawn. net/rpc numbers its calls, so commands run side by
// side on it. The host only asks, the agent only answers.
package wire

import "time"

// Dir is the guest's folder for what the host hands over at boot, with Program
// among it. It is gone with the machine.
const (
	Dir     = "/run/vmtest"
	Program = Dir + "/guest"
)

// PortName is the name of the agent's virtio serial port.
const PortName = "vmtest.agent"

// SocketPath is where the agent listens if the machine has no such port.
const SocketPath = Dir + "/agent.sock"

// ProbeFlag on the kernel's command line makes the guest say Alive on its console
// and power off, before there is a root file system.
const (
	ProbeFlag = "vmtest.probe"
	Alive     = "vmtest: alive"
)

// Service is the name of the agent's methods in net/rpc: "Agent.Run",
// "Agent.Put" and "Agent.Get".
const Service = "Agent"

// Command is a program to run to its end, which is that of all it has started, too.
type Command struct {
	Args    []string
	Stdin   []byte
	Timeout time.Duration // after it the program is killed; > 0
}

// MaxOutput is how much of each output of a Command a Result has, in bytes. Of more
// it has the beginning and the end, and between them how much was cut out.
const MaxOutput = 16 << 20

// Result is how a Command ended.
type Result struct {
	Stdout, Stderr []byte
	Code           int // exit code; -1 when it was ended by a signal
	TimedOut       bool
}

// File is a whole file.
type File struct {
	Path    string
	Content []byte
	Mode    uint32 // permission bits
}

// Nothing is an empty answer.
type Nothing struct{}
