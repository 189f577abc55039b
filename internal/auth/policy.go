package auth

import (
	"fmt"
	"strings"

	"github.com/bloom-runtime/bloom"
)

// Policy is the set of roles that a route admits. The zero Policy admits no one.
type Policy uint8

const (
	allowAdmin Policy = 1 << iota
	allowClient
	allowWorker
	allowApprover
	allowViewer
	allowAnonymous // a caller without a key
)

// The policies that routes use.
const (
	Open    = allowAdmin | allowClient | allowWorker | allowApprover | allowViewer | allowAnonymous
	Admin   = allowAdmin
	Client  = allowAdmin | allowClient // acts on tasks
	Worker  = allowAdmin | allowWorker // acts as a worker, on its leases
	Approve = allowAdmin | allowClient | allowApprover
	Read    = allowAdmin | allowClient | allowViewer
)

// Open reports whether the policy admits callers without a key.
func (p Policy) Open() bool { return p&allowAnonymous != 0 }

// Allows reports whether the policy admits the role.
func (p Policy) Allows(role Role) bool {
	switch role {
	case RoleAdmin:
		return p&allowAdmin != 0
	case RoleClient:
		return p&allowClient != 0
	case RoleWorker:
		return p&allowWorker != 0
	case RoleApprover:
		return p&allowApprover != 0
	case RoleViewer:
		return p&allowViewer != 0
	}
	return p.Open()
}

// Check returns the *bloom.Error for a caller whom the policy does not admit, nil otherwise.
func (p Policy) Check(caller Principal) error {
	switch {
	case p.Allows(caller.Role):
		return nil
	case !caller.Known():
		return errNoKey
	}
	needed := make([]string, 0, len(Roles))
	for _, role := range p.Roles() {
		needed = append(needed, string(role))
	}
	return &bloom.Error{Kind: bloom.KindForbidden, Code: bloom.CodeForbidden,
		Message: fmt.Sprintf("The role %s may not do that; it needs %s", caller.Role, strings.Join(needed, " or "))}
}

// Roles returns the roles that the policy admits, in the order of Roles.
func (p Policy) Roles() []Role {
	admitted := []Role{}
	for _, r := range Roles {
		if p.Allows(r) {
			admitted = append(admitted, r)
		}
	}
	return admitted
}
