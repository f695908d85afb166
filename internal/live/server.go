package live

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

const (
	statusPath  = "/status"
	recoverPath = "/recover"

	headerTime = 5 * time.Second // for a client to say what it wants
	closeTime  = time.Second     // for answers that are under way when the server closes
)

// Server answers for this process. Its file goes with it.
type Server struct {
	file   string
	source Source
	http   http.Server
	ctx    context.Context // ends when Close has waited long enough
	stop   context.CancelFunc
	served sync.WaitGroup // the listener and the answers; Add only by begin

	mu     sync.Mutex
	closed bool
}

// failure is the JSON form of an error.
type failure struct {
	Error string `json:"error"`
}

// Serve begins to answer for source, the only one of this process. Files that dead processes have left go.
func Serve(source Source) (*Server, error) {
	if _, err := List(); err != nil { // which sweeps
		return nil, err
	}
	listener, err := loopback()
	if err != nil {
		return nil, err
	}
	st := source.Status()
	p := Process{PID: os.Getpid(), Host: hostname(), RunID: st.RunID, Name: st.Name, Started: time.Now(),
		Address: listener.Addr().String(), Token: rand.Text()}
	file, err := put(&p)
	if err != nil {
		listener.Close()
		return nil, err
	}
	s := &Server{file: file, source: source}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.http = http.Server{Handler: s.guard(p.Token, s.handler()), ReadHeaderTimeout: headerTime, ReadTimeout: headerTime}
	s.served.Go(func() { s.http.Serve(listener) }) // ends with Close
	return s, nil
}

// loopback listens on a free port of the loopback interface.
func loopback() (net.Listener, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err == nil {
		return l, nil
	}
	if l, err6 := net.Listen("tcp6", "[::1]:0"); err6 == nil {
		return l, nil
	}
	return nil, fmt.Errorf("no port of the loopback interface: %w", err)
}

// Close ends the answers and removes the file.
func (s *Server) Close() error {
	err := take(s.file)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	shut := s.http.Shutdown(ctx)
	s.stop()
	if shut != nil { // something was still being answered
		s.http.Close()
	}
	s.served.Wait()
	return err
}

// begin adds an answer to those that Close waits for, unless Close has begun.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.served.Add(1)
	}
	return !s.closed
}

// guard lets nobody in who doesn't know the token.
func (s *Server) guard(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1:
			answer(w, http.StatusUnauthorized, failure{"this is not for you"})
		case !s.begin():
			answer(w, http.StatusServiceUnavailable, failure{"it is about to end"})
		default:
			defer s.served.Done()
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, s.source.Status())
	})
	mux.HandleFunc("POST "+recoverPath, func(w http.ResponseWriter, _ *http.Request) {
		// Not the question's context: whoever has asked may go, but a recovery is not to end half way.
		if err := s.source.Recover(s.ctx); err != nil {
			answer(w, http.StatusConflict, failure{err.Error()})
			return
		}
		answer(w, http.StatusOK, s.source.Status())
	})
	return mux
}

func answer(w http.ResponseWriter, code int, what any) {
	text, err := json.Marshal(what)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"it can't be said in JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(text, '\n')) // who has gone gets nothing
}
