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

// NoHash is the previous hash of the chain's first entry.
const NoHash = "0000000000000000000000000000000000000000000000000000000000000000"

// Canonical returns an entry's canonical JSON, which its hash covers: the members in this order,
// without spaces, strings escaped as in RFC 8785, data as stored, without the hash.
func Canonical(a Audit) []byte {
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

// ChainHash returns the hash of an entry with this canonical JSON when prev is the hash of the entry
// before: the SHA-256 of prev, as 64 hex digits, followed by the canonical JSON.
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

// appendString escapes only what JSON requires.
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

// appendData appends data without spaces. Data that is not valid JSON, which only another program
// can have stored, becomes a string.
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
	Seq  int64  `json:"seq" doc:"Of the last chained entry; 0 when there is none"`
	Hash string `json:"hash"`
}

// NextHead returns the end of the chain after the entry has been chained.
func NextHead(h ChainHead, a Audit) ChainHead {
	return ChainHead{Seq: a.Seq, Hash: ChainHash(h.Hash, Canonical(a))}
}

// ChainLink is a position in the chain with its entry.
type ChainLink struct {
	Seq     int64
	Hash    string // empty: the entry is not chained
	Removed int64  // when retention removed the entry, Unix milliseconds; the chain then continues from its hash. 0: not removed
	Entry   *Audit // nil: missing
}

// AuditExport is the progress of the export of the audit to files.
type AuditExport struct {
	Exported int64  `json:"exported" doc:"Seq of the last entry in a file"`
	Hash     string `json:"hash"` // of that entry; empty where it is not known
	// Planned is the last entry of the file that is being written, 0 when none is. After a crash
	// the export writes the same file again.
	Planned int64 `json:"-"`
	// Branch counts how often the database was found to be older than the files because a backup
	// was restored.
	Branch int `json:"-"`
}

// AuditLag is how far chaining and export are behind.
type AuditLag struct {
	Unchained    time.Duration // age of the oldest entry that is not chained; 0: none
	Unexported   time.Duration // age of the oldest entry that is not exported; 0: none
	ToExport     int64         // a lower bound of the chained entries that are not exported: numbers have gaps
	LastExported int64         // Seq
	Branch       int           // of the files, see AuditExport
}

// AuditChainStore links the audit into one hash chain, in the order of Seq, across all processes
// that share the database, and records the progress of its export.
//
// The store itself chains entries: in the commit that creates them when one process owns the
// database, otherwise right after it. It chains an entry only when no entry with a lower Seq can
// appear any more.
type AuditChainStore interface {
	// Seal chains a bounded number of unchained entries and returns how many. It returns 0 also
	// when another process is doing it. The store calls it on its own.
	Seal(ctx context.Context) (int, error)
	// AuditHead returns the last entry of the chain.
	AuditHead(ctx context.Context) (ChainHead, error)
	// AuditLinks lists the chain after a Seq, oldest first, including entries that are not chained
	// yet; an empty list is the end. The head was read before the links. prev is the position
	// before the first link, with Seq 0 and NoHash at the beginning.
	AuditLinks(ctx context.Context, after int64, limit int) (head ChainHead, prev ChainLink, links []ChainLink, err error)
	// AuditExport returns the progress of the export.
	AuditExport(ctx context.Context) (AuditExport, error)
	// SetAuditExport replaces the progress was by is, and fails with a conflict when it is no
	// longer was. A new branch gets an audit entry.
	SetAuditExport(ctx context.Context, was, is AuditExport) error
	// AuditLag returns how far chaining and export are behind.
	AuditLag(ctx context.Context) (AuditLag, error)
}

// ChainPlace is a ChainLink on the wire.
type ChainPlace struct {
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash" doc:"Empty: the entry is not chained yet"`
	RemovedAt int64  `json:"removed_at,omitempty" doc:"When retention removed the entry, Unix milliseconds"`
	Canonical string `json:"canonical,omitempty" doc:"The entry's canonical JSON, which its hash covers byte by byte"`
}

// ChainPart is a part of the chain on the wire.
type ChainPart struct {
	Head  ChainHead    `json:"head"`
	Prev  ChainPlace   `json:"prev" doc:"The position before the first of links"`
	Links []ChainPlace `json:"links" nullable:"false" doc:"Oldest first; empty at the end"`
	// Exported and Branch are not younger than the links.
	Exported int64 `json:"exported" doc:"Seq of the last entry that was written to a file"`
	Branch   int   `json:"branch" doc:"How often a backup was restored: new files are of this branch"`
}

// maxChainPart bounds a ChainPart, in bytes of entries.
const maxChainPart = 4 << 20

// PartOf returns as many of the links as fit into a ChainPart, at least one.
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
		p.Canonical = string(Canonical(*l.Entry))
	}
	return p
}

// LinkOf decodes a ChainPlace.
func LinkOf(p ChainPlace) (ChainLink, error) {
	l := ChainLink{Seq: p.Seq, Hash: p.Hash, Removed: p.RemovedAt}
	if p.Canonical == "" {
		return l, nil
	}
	l.Entry = &Audit{}
	err := json.Unmarshal([]byte(p.Canonical), l.Entry)
	l.Entry.Hash = p.Hash
	return l, err
}
