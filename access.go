package bloom

// Role is what a caller may do.
type Role string

// The roles.
const (
	RoleAdmin    Role = "admin"    // everything
	RoleClient   Role = "client"   // creates, leases, cancels, requeues, reads
	RoleWorker   Role = "worker"   // registers itself, claims, reports on its own leases
	RoleApprover Role = "approver" // decides what runs ask, and reads only that
	RoleViewer   Role = "viewer"   // reads
)

// Roles lists every role.
var Roles = []Role{RoleAdmin, RoleClient, RoleWorker, RoleApprover, RoleViewer}

// The statuses of a key.
const (
	KeyActive  = "active"
	KeyExpired = "expired"
	KeyRevoked = "revoked"
)

// APIKey describes a key without its text.
type APIKey struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	Role       Role    `json:"role" enum:"admin,client,worker,approver,viewer"`
	WorkerID   *string `json:"worker_id" doc:"The worker that the key acts as, and no other; null when it is not bound to a worker"`
	Status     string  `json:"status" enum:"active,expired,revoked"`
	CreatedAt  int64   `json:"created_at" doc:"Unix milliseconds"`
	CreatedBy  string  `json:"created_by"`
	ExpiresAt  *int64  `json:"expires_at" doc:"Unix milliseconds; null when it never expires"`
	LastUsedAt *int64  `json:"last_used_at" doc:"Unix milliseconds, to about a minute; null when it was never used"`
	RevokedAt  *int64  `json:"revoked_at" doc:"Unix milliseconds"`
}

// StatusAt returns the key's status at a time in Unix milliseconds.
func (k *APIKey) StatusAt(now int64) string {
	switch {
	case k.RevokedAt != nil:
		return KeyRevoked
	case k.ExpiresAt != nil && *k.ExpiresAt <= now:
		return KeyExpired
	}
	return KeyActive
}

// CreatedKey is the answer to creating a key: the only time that its text is shown.
type CreatedKey struct {
	APIKey
	Key string `json:"key" doc:"The key itself. It is shown once and stored nowhere"`
}

// KeySpec describes the key to create.
type KeySpec struct {
	Name      string `json:"name" minLength:"1" maxLength:"128"`
	Role      Role   `json:"role" enum:"admin,client,worker,approver,viewer"`
	WorkerID  string `json:"worker_id,omitempty" doc:"Binds a worker's key to one worker"`
	ExpiresAt int64  `json:"expires_at,omitempty" minimum:"0" doc:"Unix milliseconds; 0: it never expires"`
}

// BrowserSession is a browser's sign-in. It ends when it expires, when its key ends, or when a user
// ends it.
type BrowserSession struct {
	ID         string  `json:"id"`
	Name       string  `json:"name" doc:"Of the key, or of the person"`
	Role       Role    `json:"role" enum:"admin,client,worker,approver,viewer"`
	KeyID      *string `json:"key_id" doc:"The key that it was exchanged for; null for one of a sign-in provider"`
	CreatedAt  int64   `json:"created_at" doc:"Unix milliseconds"`
	LastUsedAt int64   `json:"last_used_at" doc:"Unix milliseconds, to about a minute"`
	ExpiresAt  int64   `json:"expires_at" doc:"Unix milliseconds; later when it is used"`
	Address    string  `json:"address" doc:"Where it was signed in from"`
	Agent      string  `json:"user_agent"`
}

// SecretRotation is the result of rotating the key that encrypts secrets.
type SecretRotation struct {
	Secrets int  `json:"secrets" doc:"Secrets that were re-encrypted"`
	KeptOld bool `json:"kept_old" doc:"Earlier keys still decrypt what they encrypted"`
}
