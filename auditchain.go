package bloom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// NoHash is what the first entry of the audit is chained to.
const NoHash = "0000000000000000000000000000000000000000000000000000000000000000"

// Canonical is the entry's canonical JSON, the bytes that its hash covers: the
// members in this order, without spaces, strings escaped as in RFC 8785, data as it
// is stored, and without the hash.
func (a Audit) Canonical() []byte {
	b := make([]byte, 0, 384+len(a.Detail)+len(a.Data))
	b = strconv.AppendInt(append(b, `{"seq":`...), a.Seq, 10)
	b = appendMember(b, "id", a.ID)
	b = strconv.AppendInt(append(b, `,"timestamp":`...), a.Timestamp, 10)
	b = appendMember(b, "action", a.Action)
	b = appendMember(b, "entity_type", a.EntityType)
	b = appendMember(b, "entity_id", a.EntityID)
	b = appendMember(b, "actor", a.Actor)
	b = appendMember(b, "key_id", a.KeyID)
	b = appendMember(b, "address", a.Address)
	b = appendMember(b, "detail", a.Detail)
	return append(appendData(append(b, `,"data":`...), a.Data), '}')
}

// ChainHash is the entry's hash when prev is the hash of the entry before: SHA-256
// over prev, as 64 hex digits, and the canonical JSON.
func (a Audit) ChainHash(prev string) string { return ChainHash(prev, a.Canonical()) }

// ChainHash is the hash of an entry with this canonical JSON.
func ChainHash(prev string, canonical []byte) string {
	h := sha256.New()
	h.Write([]byte(prev))
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

func appendMember(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return appendString(b, value)
}

// appendString escapes what JSON demands and nothing else.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		default:
			if i := strings.IndexByte("\b\t\n\f\r", c); i >= 0 {
				b = append(b, '\\', "btnfr"[i])
			} else {
				b = append(b, '\\', 'u', '0', '0', "01"[c>>4], "0123456789abcdef"[c&15])
			}
		}
	}
	return append(b, '"')
}

// appendData takes the spaces out. What is no JSON, which only another program can
// have stored, becomes a string.
func appendData(b []byte, data json.RawMessage) []byte {
	if len(data) == 0 {
		return append(b, "null"...)
	}
	if !bytes.ContainsAny(data, " \t\n\r") && json.Valid(data) {
		return append(b, data...)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, data) != nil {
		return appendString(b, string(data))
	}
	return append(b, compact.Bytes()...)
}

// ChainHead is the last entry of the chain.
type ChainHead struct {
	Seq  int64  `json:"seq" doc:"Of the last entry that is chained; 0 before the first"`
	Hash string `json:"hash"`
}

// Next is the head once the entry is chained.
func (h ChainHead) Next(a Audit) ChainHead { return ChainHead{Seq: a.Seq, Hash: a.ChainHash(h.Hash)} }

// ChainLink is a place in the chain with the entry that belongs there.
type ChainLink struct {
	Seq     int64
	Hash    string // empty: the entry is not chained
	Removed int64  // Unix milliseconds; when retention removed the entry, from which those after it start; 0: it did not
	Entry   *Audit // nil: there is none
}

// AuditExport is how far the audit has been written to files.
type AuditExport struct {
	Exported int64  `json:"exported" doc:"Seq of the last entry in a file"`
	Hash     string `json:"hash"` // of that entry; empty where it is not known
	// Planned is the last entry of the file that is being written, 0 for none: whoever
	// goes on after a crash writes the same file.
	Planned int64 `json:"-"`
	// Branch counts how often the database was found to be older than the files, because
	// a backup was restored.
	Branch int `json:"-"`
}

// AuditLag is how much of the audit still has to be chained and exported.
type AuditLag struct {
	Unchained    time.Duration // age of the oldest entry that is not chained; 0: all are
	Unexported   time.Duration // age of the oldest entry that is in no file; 0: all are
	ToExport     int64         // chained entries in no file, at least; entries are numbered with gaps
	LastExported int64         // Seq
	Branch       int           // of the files, see AuditExport
}

// AuditChainStore makes the audit one chain, in the order of Seq, over all processes
// that share the database, and remembers how far it was exported.
//
// Entries are chained by the store itself: with the commit that makes them where one
// process has the database, else right after it. An entry is never chained before
// all that have a lower Seq and will ever be there.
type AuditChainStore interface {
	// Seal chains entries that are not, a bounded number, and returns how many those
	// were. 0 also when another process is at it. The store calls it by itself.
	Seal(ctx context.Context) (int, error)
	// AuditHead is the last entry of the chain.
	AuditHead(ctx context.Context) (ChainHead, error)
	// AuditLinks lists the chain after a Seq, the oldest first, with what is not
	// chained yet; none: that is all. The head is not younger than the links. prev is
	// the place before the first link, with the Seq 0 and NoHash at the beginning.
	AuditLinks(ctx context.Context, after int64, limit int) (head ChainHead, prev ChainLink, links []ChainLink, err error)
	// AuditExport is how far the audit was exported.
	AuditExport(ctx context.Context) (AuditExport, error)
	// SetAuditExport replaces was; a conflict when it is no longer that. A new branch is
	// noted in the audit.
	SetAuditExport(ctx context.Context, was, is AuditExport) error
	// AuditLag tells how far chain and export are behind.
	AuditLag(ctx context.Context) (AuditLag, error)
}

// ChainPlace is a ChainLink as it is sent.
type ChainPlace struct {
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash" doc:"Empty: the entry is not chained yet"`
	RemovedAt int64  `json:"removed_at,omitempty" doc:"When retention removed the entry, Unix milliseconds"`
	Canonical string `json:"canonical,omitempty" doc:"The entry's canonical JSON, which its hash covers byte by byte"`
}

// ChainPart is a part of the chain as it is sent.
type ChainPart struct {
	Head  ChainHead    `json:"head"`
	Prev  ChainPlace   `json:"prev" doc:"The place before the first of links"`
	Links []ChainPlace `json:"links" nullable:"false" doc:"Oldest first; none: that is all"`
	// Exported and Branch are not younger than the links.
	Exported int64 `json:"exported" doc:"Seq of the last entry that was written to a file"`
	Branch   int   `json:"branch" doc:"How often a backup was restored: new files are of this branch"`
}

// maxChainPart bounds a ChainPart, in bytes of entries.
const maxChainPart = 4 << 20

// PartOf is what is sent of links: as many as the size of a part allows, at least one.
func PartOf(head ChainHead, prev ChainLink, links []ChainLink) ChainPart {
	p := ChainPart{Head: head, Prev: placeOf(prev), Links: make([]ChainPlace, 0, len(links))}
	size := 0
	for _, l := range links {
		place := placeOf(l)
		if size += len(place.Canonical); size > maxChainPart && len(p.Links) > 0 {
			break
		}
		p.Links = append(p.Links, place)
	}
	return p
}

func placeOf(l ChainLink) ChainPlace {
	p := ChainPlace{Seq: l.Seq, Hash: l.Hash, RemovedAt: l.Removed}
	if l.Entry != nil {
		p.Canonical = string(l.Entry.Canonical())
	}
	return p
}

// Link is what was sent.
func (p ChainPlace) Link() (ChainLink, error) {
	l := ChainLink{Seq: p.Seq, Hash: p.Hash, Removed: p.RemovedAt}
	if p.Canonical == "" {
		return l, nil
	}
	l.Entry = &Audit{}
	err := json.Unmarshal([]byte(p.Canonical), l.Entry)
	l.Entry.Hash = p.Hash
	return l, err
}
