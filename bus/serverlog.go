package bus

import (
	"fmt"
	"sync"

	"github.com/rs/zerolog"
)

// A serverLog passes the embedded server's messages on. It also keeps the first fatal one: a server
// that can't start says so nowhere else.
type serverLog struct {
	log   zerolog.Logger
	mu    sync.Mutex
	first error
}

// Noticef is for what an operator may want to know.
func (l *serverLog) Noticef(format string, v ...any) { l.log.Info().Msgf(format, v...) }

// Warnf is for what an operator should know.
func (l *serverLog) Warnf(format string, v ...any) { l.log.Warn().Msgf(format, v...) }

// Errorf is for what went wrong.
func (l *serverLog) Errorf(format string, v ...any) { l.log.Error().Msgf(format, v...) }

// Debugf is for who looks for a fault.
func (l *serverLog) Debugf(format string, v ...any) { l.log.Debug().Msgf(format, v...) }

// Tracef is for who reads the protocol.
func (l *serverLog) Tracef(format string, v ...any) { l.log.Trace().Msgf(format, v...) }

// Fatalf keeps the message. It does not end the process: the server is not the whole of it.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Error().Msgf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == nil {
		l.first = fmt.Errorf(format, v...)
	}
}

func (l *serverLog) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}
