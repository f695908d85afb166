package peer

import (
	"log/slog"

	"github.com/libp2p/go-libp2p/gologshim"
)

// LogTo sends what libp2p itself logs to h, for the whole process, and silences its DHT, whose log has no such switch.
// Without it, libp2p's errors go to standard error. It has to be called before the first Host is made. Config.Log is not
// affected.
func LogTo(h slog.Handler) {
	gologshim.SetDefaultHandler(h)
	silenceDHT()
}
