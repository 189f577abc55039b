package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// NoHash is the previous hash of the chain's first entry.
const NoHash = "0000000000000000000000000000000000000000000000000000000000000000"

// Canonical returns an entry's canonical JSON, which its hash covers: the members in this order,
// without spaces, strings escaped as in RFC 8785, data as stored, without the hash.
func Canonical(a bloom.Audit) []byte {
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

// Hash returns the hash of an entry with this canonical JSON when prev is the hash of the entry
// before: the SHA-256 of prev, as 64 hex digits, followed by the canonical JSON.
func Hash(prev string, canonical []byte) string {
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

// NextHead returns the end of the chain after the entry has been chained.
func NextHead(h bloom.ChainHead, a bloom.Audit) bloom.ChainHead {
	return bloom.ChainHead{Seq: a.Seq, Hash: Hash(h.Hash, Canonical(a))}
}

// Link is a position in the chain with its entry.
type Link struct {
	Seq     int64
	Hash    string       // empty: the entry is not chained
	Removed int64        // when retention removed the entry, Unix milliseconds; the chain then continues from its hash. 0: not removed
	Entry   *bloom.Audit // nil: missing
}

// maxChainPart bounds a ChainPart, in bytes of entries.
const maxChainPart = 4 << 20

// PartOf returns as many of the links as fit into a ChainPart, at least one.
func PartOf(head bloom.ChainHead, prev Link, links []Link) bloom.ChainPart {
	p := bloom.ChainPart{Head: head, Prev: placeOf(prev), Links: make([]bloom.ChainPlace, 0, len(links))}
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

func placeOf(l Link) bloom.ChainPlace {
	p := bloom.ChainPlace{Seq: l.Seq, Hash: l.Hash, RemovedAt: l.Removed}
	if l.Entry != nil {
		p.Canonical = string(Canonical(*l.Entry))
	}
	return p
}

// LinkOf decodes a ChainPlace.
func LinkOf(p bloom.ChainPlace) (Link, error) {
	l := Link{Seq: p.Seq, Hash: p.Hash, Removed: p.RemovedAt}
	if p.Canonical == "" {
		return l, nil
	}
	l.Entry = &bloom.Audit{}
	err := json.Unmarshal([]byte(p.Canonical), l.Entry)
	l.Entry.Hash = p.Hash
	return l, err
}
