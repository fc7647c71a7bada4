package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
)

const (
	// idleTime and wholeTime are how long a session lasts without being used, and in all.
	idleTime  = 12 * time.Hour
	wholeTime = 7 * 24 * time.Hour
	// linkTime is how long a one-time link works.
	linkTime = 60 * time.Second
	// seenEvery is the precision with which the use of a session is stored.
	seenEvery = time.Minute
	// memoryTime is how long a session is known while the store is away.
	memoryTime = 60 * time.Second
	// memorySize bounds the number of sessions in memory.
	memorySize = 4096

	maxUserAgent = 256
)

// Session is a session of a person or key that is signed in.
type Session struct {
	access.Session

	Principal apikey.Principal // the present rights of the key
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// token returns the hash of the session's cookie; nil: there is none, or more than one, so that ours is
// unknown.
func (p *Page) token() []byte {
	cookies := p.Request.CookiesNamed(p.cookieName(""))
	if len(cookies) != 1 || len(cookies[0].Value) != 64 {
		return nil
	}
	return hashOf(cookies[0].Value)
}

// admit lets in a browser with a session, and leads any other to the sign-in.
func (c *Console) admit(p *Page) error {
	session, err := c.session(p.Context(), p.token())
	if errors.Is(err, domain.ErrNotFound) {
		p.toSignIn()
		return errAnswered
	}
	if err != nil {
		return err
	}
	p.Session = session
	return nil
}

// errAnswered says that the request has already been answered.
var errAnswered = errors.New("answered")

// session returns the session with the hash, with the present rights of its key. ErrNotFound: there is
// no such session any more. While the store is away, the state of up to a minute ago is used.
func (c *Console) session(ctx context.Context, hash []byte) (Session, error) {
	if hash == nil {
		return Session{}, domain.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	found, holder, err := c.Sessions.FindSession(ctx, hash)
	if errors.Is(err, domain.ErrUnavailable) {
		if known, ok := c.sessions.get(hash, time.Now()); ok {
			return known, nil
		}
	}
	if err != nil {
		c.sessions.forget(hash)
		return Session{}, err
	}
	principal, ok := c.principal(found, holder, time.Now())
	if found.Kind != access.KindSession || !ok {
		c.sessions.forget(hash)
		return Session{}, domain.ErrNotFound
	}
	session := Session{found, principal}
	c.sessions.put(hash, session, time.Now())
	if now := time.Now(); now.Sub(found.SeenOn) >= seenEvery {
		if err := c.Sessions.SeeSession(ctx, found.ID); err != nil {
			c.Logger.Debug("the use of a session was not noted", "error", err)
		}
	}
	return session, nil
}

// principal returns the present rights of a session; ok is false when the session has ended.
func (c *Console) principal(s access.Session, holder domain.KeyHolder, now time.Time) (p apikey.Principal, ok bool) {
	if !now.Before(s.ExpiresOn) || now.Sub(s.SeenOn) >= idleTime {
		return apikey.Principal{}, false
	}
	if s.KeyID == "" && s.ManagerID == "" {
		p, _, ok = c.Keys.Bootstrap()
		return p, ok && c.Keys.Holds(s.Proof)
	}
	if !holder.ExpiresOn.IsZero() && !now.Before(holder.ExpiresOn) {
		return apikey.Principal{}, false
	}
	p = authenticator.PrincipalOf(holder)
	if s.ManagerID != "" {
		p.Type, p.KeyID = apikey.TypeManager, s.ManagerID
	}
	return p, holder.Account == s.Account
}

// openFresh starts a session, ends the browser's previous one, and sets the cookie. Code, if not nil, is
// the hash of the one-time code that is exchanged for the session. ErrNotFound: the code has been used,
// and no session is opened.
func (p *Page) openFresh(s access.Session, code []byte) error {
	token, former := random(), p.token()
	s.Hash, s.Kind = hashOf(token), access.KindSession
	s.Address, s.UserAgent = edge.Of(p.Request).Address, cut(p.Request.UserAgent())
	opened, err := p.console.Sessions.OpenSession(p.Context(), s, wholeTime, access.Replaced{Code: code, Former: former})
	if err != nil {
		return err
	}
	if former != nil {
		p.console.sessions.forget(former)
	}
	p.setCookie("", token, wholeTime)
	p.console.Logger.Info("signed in to the console", "account", opened.Account, "keyId", opened.KeyID, "session", opened.ID, "address", opened.Address)
	return nil
}

// proofLength is how much of a key is kept to distinguish it from other keys: its checksum.
const proofLength = 8

// holderOf returns a session for the key that was shown.
func (c *Console) holderOf(ctx context.Context, key string) (access.Session, error) {
	if len(key) > apikey.MaxLength || !apikey.Visible(key) || key == "" {
		return access.Session{}, apikey.ErrUnauthenticated
	}
	principal, err := c.Keys.Authenticate(ctx, key)
	if err != nil {
		return access.Session{}, err
	}
	s := access.Session{Account: principal.Account, KeyID: principal.KeyID}
	if principal.Type == apikey.TypeBootstrap {
		_, s.Proof, _ = c.Keys.Bootstrap()
	} else {
		s.Proof = key[len(key)-proofLength:]
	}
	return s, nil
}

// cut returns text in a form that every database can store, of at most 256 bytes.
func cut(text string) string {
	return domain.CutText(text, maxUserAgent)
}

// memory knows sessions for a minute, for when the store is away.
type memory struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]remembered
}

type remembered struct {
	session Session
	until   time.Time
}

func newMemory() *memory { return &memory{known: make(map[[sha256.Size]byte]remembered)} }

func (m *memory) get(hash []byte, now time.Time) (Session, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, ok := m.known[[sha256.Size]byte(hash)]
	if !ok || !now.Before(found.until) {
		return Session{}, false
	}
	return found.session, true
}

func (m *memory) put(hash []byte, s Session, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= memorySize {
		clear(m.known)
	}
	m.known[[sha256.Size]byte(hash)] = remembered{s, now.Add(memoryTime)}
}

func (m *memory) forget(hash []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, [sha256.Size]byte(hash))
}

// Sessions returns the sessions of the key that has signed in, or of the manager, the latest first.
func (p *Page) Sessions() ([]access.Session, error) {
	ctx, cancel := context.WithTimeout(p.Context(), ownTime)
	defer cancel()
	return p.console.Sessions.ListSessions(ctx, p.Session.Session)
}

// EndOtherSessions ends all sessions of the key or manager except this one.
func (p *Page) EndOtherSessions() error {
	ctx, cancel := context.WithTimeout(p.Context(), ownTime)
	defer cancel()
	return p.console.Sessions.EndOtherSessions(ctx, p.Session.Session)
}
