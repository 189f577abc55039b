package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/bloom-runtime/bloom"
)

// Kinds of a ChainFault.
const (
	Changed  = "changed"  // the hash is not that of the entry and the one before
	Removed  = "removed"  // an entry is missing, and retention did not remove it
	Inserted = "inserted" // an entry was added without being chained
	Differs  = "differs"  // database and files disagree
)

// Fault describes the first wrong entry of the audit.
type Fault struct {
	Seq    int64  `json:"seq"`
	Kind   string `json:"kind" enum:"changed,removed,inserted,differs"`
	Detail string `json:"detail"`
	File   string `json:"file,omitempty"`
}

// Error names the entry.
func (f *Fault) Error() string {
	return fmt.Sprintf("audit entry %d: %s: %s", f.Seq, f.Kind, f.Detail)
}

// Verifier checks a chain link by link, in the order of Seq. The zero value starts at the
// beginning of the chain.
type Verifier struct {
	last   bloom.ChainHead
	cut    int64 // the last removed entry; the chain continues from its hash
	signed int64 // up to which entry retention has recorded removals

	Entries   int64 // in the chain and intact
	Unchained int64 // at the end, not chained yet
	First     int64 // Seq of the first of Entries
}

// Last returns the end of the part that was checked.
func (v *Verifier) Last() bloom.ChainHead { return v.last }

// Next checks the next link, which was read no earlier than head. It returns nil when the link is
// correct.
func (v *Verifier) Next(head bloom.ChainHead, l Link) *Fault {
	switch {
	case l.Entry == nil && l.Hash == "":
		return nil // removed between two reads
	case l.Entry == nil && l.Removed == 0:
		return &Fault{Seq: l.Seq, Kind: Removed, Detail: "its hash is in the chain, but the entry is not there"}
	case l.Entry == nil:
		v.last, v.cut = bloom.ChainHead{Seq: l.Seq, Hash: l.Hash}, l.Seq
		return nil
	case l.Hash == "" && l.Seq <= head.Seq:
		return &Fault{Seq: l.Seq, Kind: Inserted, Detail: fmt.Sprintf("it is not chained, though entries up to %d are", head.Seq)}
	case l.Hash == "":
		v.Unchained++
		v.sign(l.Entry)
		return nil
	}
	if want := Hash(cmp.Or(v.last.Hash, NoHash), Canonical(*l.Entry)); l.Hash != want {
		detail := "its hash does not follow from its content and from the beginning of the chain"
		if v.last.Seq > 0 {
			detail = fmt.Sprintf("its hash does not follow from its content and entry %d before it: it was changed, or entries between them were removed", v.last.Seq)
		}
		return &Fault{Seq: l.Seq, Kind: Changed, Detail: detail}
	}
	if v.Entries == 0 {
		v.First = l.Seq
	}
	v.Entries++
	v.last = bloom.ChainHead{Seq: l.Seq, Hash: l.Hash}
	v.sign(l.Entry)
	return nil
}

// sign records what an entry of retention declares removed.
func (v *Verifier) sign(a *bloom.Audit) {
	var cut struct {
		UpTo int64 `json:"up_to"` // of contract.AuditCut
	}
	if a.Action == ActionAuditRemoved && a.EntityType == EntityRetention && json.Unmarshal(a.Data, &cut) == nil {
		v.signed = max(v.signed, cut.UpTo)
	}
}

// End checks the end of the chain. head was read before the last link, or no link follows it.
func (v *Verifier) End(head bloom.ChainHead) *Fault {
	switch {
	case v.last.Seq < head.Seq:
		return &Fault{Seq: head.Seq, Kind: Removed, Detail: fmt.Sprintf("the chain ended with it, but there is nothing after entry %d", v.last.Seq)}
	case v.last.Seq == head.Seq && cmp.Or(v.last.Hash, NoHash) != cmp.Or(head.Hash, NoHash):
		return &Fault{Seq: head.Seq, Kind: Changed, Detail: "the chain ended with another hash of it"}
	case v.cut > v.signed:
		return &Fault{Seq: v.cut, Kind: Removed, Detail: "it and entries before it are not there, and no entry of the retention says that it removed them"}
	}
	return nil
}

// PageSize is the number of links that VerifyChain reads at once.
const PageSize = 1000

// Reader reads a chain: a store, or a database that a server is using.
type Reader interface {
	AuditLinks(ctx context.Context, after int64, limit int) (head bloom.ChainHead, prev Link, links []Link, err error)
}

// Verify checks the whole chain. It calls each, when not nil, with every correct link; each
// may return a fault of its own. A fault is a *ChainFault; any other error means that the chain
// could not be read. The chain may grow, and retention may remove entries, in the meantime.
func Verify(ctx context.Context, r Reader, each func(Link) error) (*Verifier, error) {
	v := &Verifier{}
	for after := int64(0); ; {
		head, _, links, err := r.AuditLinks(ctx, after, PageSize)
		if err != nil {
			return v, err
		}
		for _, l := range links {
			if after = l.Seq; l.Hash != "" && v.Unchained > 0 {
				// Earlier entries have been chained in the meantime; read them again.
				after, v.Unchained = v.last.Seq, 0
				break
			}
			if fault := v.Next(head, l); fault != nil {
				return v, fault
			}
			if each != nil && l.Hash != "" {
				if err := each(l); err != nil {
					return v, err
				}
			}
		}
		if len(links) == 0 || v.last.Seq >= head.Seq && after > v.last.Seq && v.cut <= v.signed {
			if fault := v.End(head); fault != nil {
				return v, fault
			}
			return v, nil
		}
	}
}
