# Asks a shell on a terminal, which the arguments start, one sum after the other. It fails
# when the session is disturbed, and ends in order at TERM.
import os, signal, socket, subprocess, sys, time

over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
# In a session of its own, so that TERM is not for the shell.
shell = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
asked = 0
while not over:
    asked += 1
    shell.stdin.write(f"echo sum $(({asked} + 1))\n".encode())
    shell.stdin.flush()
    while f"sum {asked + 1}" not in (line := shell.stdout.readline().decode()):
        if not line:
            sys.exit(f"the session has ended: {shell.wait()}")
    if asked == 1:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.connect(os.environ["NOTIFY_SOCKET"])
        s.send(b"READY=1")
    time.sleep(0.3)
shell.stdin.write(b"exit 7\n")
shell.stdin.flush()
shell.stdout.read()
if (code := shell.wait()) != 7:
    sys.exit(f"exit code {code}, which is not the shell's")
print("asked", asked, "times")
