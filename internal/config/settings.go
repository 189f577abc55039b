// Package config defines the settings and resolves their values: a setting's value comes from its
// flag, else its environment variable, else its line in the config file, else its default. Of the
// command-line parser it knows only what it needs to supply values; it builds nothing from them.
//
// The structs are embedded in commands. In their tags, var is the environment variable and key the
// line in the config file; a field without var is not a setting but an argument of one call.
package config

import "time"

// Secret is a value that is never printed.
type Secret string

// Mask shows enough of a secret to recognize it: "abcd****wxyz", or "****" for one of 8 characters
// or fewer.
func (s Secret) Mask() string {
	switch {
	case s == "":
		return ""
	case len(s) <= 8:
		return "****"
	}
	return string(s[:4]) + "****" + string(s[len(s)-4:])
}

// String returns Mask, so that a secret that slips into a log line is not revealed.
func (s Secret) String() string { return s.Mask() }

// Data configures where data is stored.
type Data struct {
	DataDir string `name:"data-dir" var:"BLOOM_DATA_DIR" key:"data_dir" default:"${data_dir}" placeholder:"DIR" help:"Folder for the database, artifacts and the worker's state."`
}

// Log configures logging.
type Log struct {
	LogLevel  string `name:"log-level" var:"BLOOM_LOG_LEVEL" key:"log_level" default:"info" enum:"debug,info,warn,error" help:"Lowest level that is logged: debug, info, warn, error."`
	LogFormat string `name:"log-format" var:"BLOOM_LOG_FORMAT" key:"log_format" default:"text" enum:"text,json" help:"Log format: text or json."`
	LogFile   string `name:"log-file" var:"BLOOM_LOG_FILE" key:"log_file" placeholder:"FILE" help:"File to log to instead of standard error; rotated at 100 MB, keeping 14 files."`
}

// Keys are the runtime's own keys. Each can be given as a file, which keeps it out of the process
// list and the environment.
type Keys struct {
	RuntimeAPIKey        Secret `name:"runtime-api-key" var:"RUNTIME_API_KEY" key:"runtime_api_key" hidden:"" help:"Admin key of the runtime; better given as a file."`
	RuntimeAPIKeyFile    string `name:"runtime-api-key-file" var:"RUNTIME_API_KEY_FILE" key:"runtime_api_key_file" placeholder:"FILE" help:"File with the runtime's admin key."`
	RuntimeWorkerKey     Secret `name:"runtime-worker-key" var:"RUNTIME_WORKER_KEY" key:"runtime_worker_key" hidden:"" help:"Key for workers; better given as a file."`
	RuntimeWorkerKeyFile string `name:"runtime-worker-key-file" var:"RUNTIME_WORKER_KEY_FILE" key:"runtime_worker_key_file" placeholder:"FILE" help:"File with the key for workers."`
	InsecureNoAuth       bool   `name:"insecure-no-auth" var:"BLOOM_INSECURE_NO_AUTH" key:"insecure_no_auth" help:"Make everyone an admin, on any address. For closed labs only."`
}

// Sealing configures the key that encrypts secrets in the database.
type Sealing struct {
	SecretKey     Secret `name:"secret-key" var:"BLOOM_SECRET_KEY" key:"secret_key" hidden:"" help:"Key that encrypts secrets in the database, 64 hexadecimal digits; a second one after a comma only decrypts. Better kept in a file."`
	SecretKeyFile string `name:"secret-key-file" var:"BLOOM_SECRET_KEY_FILE" key:"secret_key_file" placeholder:"FILE" help:"File with the key that encrypts secrets in the database; created if missing. Default: secret.key in the data directory."`
}

// MembridgeAccess configures access to the control plane.
type MembridgeAccess struct {
	MembridgeServerURL    string `name:"membridge-server-url" var:"MEMBRIDGE_SERVER_URL" key:"membridge_server_url" default:"http://127.0.0.1:8000" placeholder:"URL" help:"Address of membridge, the control plane."`
	MembridgeAdminKey     Secret `name:"membridge-admin-key" var:"MEMBRIDGE_ADMIN_KEY" key:"membridge_admin_key" hidden:"" help:"Membridge's admin key; better given as a file."`
	MembridgeAdminKeyFile string `name:"membridge-admin-key-file" var:"MEMBRIDGE_ADMIN_KEY_FILE" key:"membridge_admin_key_file" placeholder:"FILE" help:"File with membridge's admin key."`
	NoMembridge           bool   `name:"no-membridge" var:"BLOOM_NO_MEMBRIDGE" key:"no_membridge" help:"Run without a control plane; with bloom up and --membridge-server-url, use that one instead of starting one."`
	MembridgeTrust
	// MembridgeChosen reports that membridge's address or key was configured explicitly.
	MembridgeChosen bool `kong:"-"`
}

// TLS configures the server's certificate. Without one it serves plain HTTP.
type TLS struct {
	TLSCert       string   `name:"tls-cert" var:"BLOOM_TLS_CERT" key:"tls_cert" placeholder:"FILE" help:"Certificate chain (PEM); enables https. Reloaded when it changes."`
	TLSKey        string   `name:"tls-key" var:"BLOOM_TLS_KEY" key:"tls_key" placeholder:"FILE" help:"Private key of --tls-cert (PEM)."`
	TLSClientCA   string   `name:"tls-client-ca" var:"BLOOM_TLS_CLIENT_CA" key:"tls_client_ca" placeholder:"FILE" help:"Certificate authority (PEM) of workers: worker keys are then accepted only with a certificate that it signed."`
	HTTPRedirect  string   `name:"http-redirect" var:"BLOOM_HTTP_REDIRECT" key:"http_redirect" placeholder:"ADDR" help:"Address, such as :80, that redirects plain HTTP to https."`
	ACMEDomain    []string `name:"acme-domain" var:"BLOOM_ACME_DOMAINS" key:"acme_domains" placeholder:"NAME" help:"Domain to obtain a certificate for with ACME (repeatable); --listen :443 or --http-redirect :80 must be reachable at it."`
	ACMEEmail     string   `name:"acme-email" var:"BLOOM_ACME_EMAIL" key:"acme_email" placeholder:"ADDRESS" help:"E-mail address for the certificate authority."`
	ACMEDirectory string   `name:"acme-directory" var:"BLOOM_ACME_DIRECTORY" key:"acme_directory" placeholder:"URL" help:"The certificate authority's ACME directory; default: Let's Encrypt."`
	ACMERoots     string   `name:"acme-roots" var:"BLOOM_ACME_ROOTS" key:"acme_roots" placeholder:"FILE" help:"Root certificates (PEM) of a private ACME directory; default: the system's."`
}

// Server configures the runtime server.
type Server struct {
	Data
	Keys            `group:"Keys:"`
	Sealing         `group:"Keys:"`
	OIDC            `group:"Sign-in with OpenID Connect:"`
	TLS             `group:"TLS:"`
	MembridgeAccess `group:"Membridge:"`
	Retention       `group:"Retention:"`
	Limits          `group:"Limits:"`
	Connections     `group:"Limits:"`
	Artifacts       `group:"Artifacts:"`
	AuditExport     `group:"Audit:"`
	Listen          string        `name:"listen" var:"BLOOM_LISTEN" key:"listen" default:"127.0.0.1:5000" placeholder:"ADDR" help:"Address the runtime listens on."`
	Port            int           `name:"port" var:"PORT" key:"port" placeholder:"N" help:"Port to listen on, unless --listen sets one."`
	DatabaseURL     Secret        `name:"database-url" var:"DATABASE_URL" key:"database_url" placeholder:"URL" help:"PostgreSQL database; without it SQLite in the data directory."`
	ReapInterval    time.Duration `name:"reap-interval" var:"BLOOM_REAP_INTERVAL" key:"reap_interval" group:"Tuning:" default:"30s" help:"How often expired leases return to the queue."`
	SyncInterval    time.Duration `name:"membridge-sync-interval" var:"BLOOM_MEMBRIDGE_SYNC_INTERVAL" key:"membridge_sync_interval" group:"Tuning:" default:"10s" help:"How often workers are read from membridge."`
	BridgeTimeout   time.Duration `name:"membridge-timeout" var:"BLOOM_MEMBRIDGE_TIMEOUT" key:"membridge_timeout" group:"Tuning:" default:"10s" help:"How long one request to membridge may take."`
	ShutdownGrace   time.Duration `name:"shutdown-grace" var:"BLOOM_SHUTDOWN_GRACE" key:"shutdown_grace" group:"Tuning:" default:"15s" help:"How long requests may take to finish when the server stops."`
	ShutdownDelay   time.Duration `name:"shutdown-delay" var:"BLOOM_SHUTDOWN_DELAY" key:"shutdown_delay" group:"Tuning:" default:"0s" help:"How long the server continues to serve after /readyz fails, so that load balancers notice."`
	BodyBudgetMiB   int           `name:"body-budget-mib" var:"BLOOM_BODY_BUDGET_MIB" key:"body_budget_mib" group:"Tuning:" default:"96" placeholder:"N" help:"Memory for large request bodies, and as much for large responses, in MiB; beyond it requests get 503."`
	PageMiB         int           `name:"page-mib" var:"BLOOM_PAGE_MIB" key:"page_mib" group:"Tuning:" default:"4" placeholder:"N" help:"Largest page of a list, in MiB; longer texts are truncated and marked."`
	StreamTimeout   time.Duration `name:"stream-timeout" var:"BLOOM_STREAM_TIMEOUT" key:"stream_timeout" group:"Tuning:" default:"30s" help:"How long a client may stop reading a stream before it is disconnected."`
	DistDir         string        `name:"dist-dir" var:"BLOOM_DIST_DIR" key:"dist_dir" placeholder:"DIR" help:"Folder with binaries for other platforms (from make cross), for workers that are installed with /install.sh."`
	TrustedOrigin   []string      `name:"trusted-origin" var:"BLOOM_TRUSTED_ORIGINS" key:"trusted_origins" placeholder:"URL" help:"Additional web origin that browsers may send requests from (repeatable)."`
}

// Run configures how a worker runs tasks.
type Run struct {
	Name           string        `name:"name" var:"BLOOM_WORKER_NAME" key:"worker_name" default:"${hostname}" help:"Name of this worker; unique among the workers of a runtime."`
	MaxConcurrency int           `name:"max-concurrency" aliases:"slots" var:"BLOOM_MAX_CONCURRENCY" key:"max_concurrency" default:"2" placeholder:"N" help:"Tasks run at once, 1 to 32."`
	Label          []string      `name:"label" var:"BLOOM_LABELS" key:"labels" placeholder:"L" help:"Label that tasks may require (repeatable)."`
	Claude         string        `name:"claude" group:"Claude:" var:"BLOOM_CLAUDE" key:"claude" placeholder:"PATH" help:"The claude program; default: the one on the PATH."`
	Workdir        string        `name:"workdir" group:"Files:" var:"BLOOM_WORKDIR" key:"workdir" placeholder:"DIR" help:"Working folder that all contexts share; default: each context has its own, in workdir in the data directory."`
	AgentsDir      string        `name:"agents-dir" group:"Claude:" var:"BLOOM_AGENTS_DIR" key:"agents_dir" placeholder:"DIR" help:"Folder of agent files (SLUG.md); default: agents in the data directory."`
	PermissionMode string        `name:"permission-mode" group:"Claude:" var:"BLOOM_PERMISSION_MODE" key:"permission_mode" default:"acceptEdits" enum:"acceptEdits,auto,bypassPermissions,default,dontAsk,plan" help:"What claude may do without asking: acceptEdits, auto, bypassPermissions, default, dontAsk, plan."`
	AllowedTool    []string      `name:"allowed-tool" group:"Claude:" var:"BLOOM_ALLOWED_TOOLS" key:"allowed_tools" sep:"none" placeholder:"TOOL" help:"Tool claude may use without asking (repeatable). It may be one that this version does not know."`
	DisallowedTool []string      `name:"disallowed-tool" group:"Claude:" var:"BLOOM_DISALLOWED_TOOLS" key:"disallowed_tools" sep:"none" placeholder:"TOOL" help:"Tool that claude may not use, in addition to those that reach beyond a task (repeatable)."`
	Ask            []string      `name:"ask" group:"Claude:" var:"BLOOM_ASK" key:"ask" sep:"none" placeholder:"RULE" help:"Permission rule of claude, such as 'Bash(git push *)': a person is asked before a call that matches (repeatable)."`
	ApprovalGrace  time.Duration `name:"approval-grace" group:"Claude:" var:"BLOOM_APPROVAL_GRACE" key:"approval_grace" default:"2m" help:"How long claude waits for a person's decision before its run is suspended."`
	SettingSource  []string      `name:"setting-source" group:"Claude:" var:"BLOOM_SETTING_SOURCES" key:"setting_sources" enum:"user,project,local" placeholder:"SOURCE" help:"Sources of claude's settings: user, project, local (repeatable; default: all). Use only user if the workdir is not trusted."`
	MCPConfig      []string      `name:"mcp-config" group:"Claude:" var:"BLOOM_MCP_CONFIGS" key:"mcp_configs" sep:"none" placeholder:"FILE" help:"MCP configuration for claude: files, separated by commas, or the JSON itself (repeatable)."`
	StrictMCP      bool          `name:"strict-mcp-config" group:"Claude:" var:"BLOOM_STRICT_MCP_CONFIG" key:"strict_mcp_config" help:"Ignore MCP servers that are not in --mcp-config."`
	ContextDirs    *bool         `name:"workdir-per-context" group:"Files:" var:"BLOOM_WORKDIR_PER_CONTEXT" key:"workdir_per_context" help:"Give each context its own folder in the workdir; default: yes, unless --workdir is set, in which all contexts then work."`
	Silence        time.Duration `name:"silence" group:"Claude:" var:"BLOOM_SILENCE" key:"silence" default:"10m" help:"How long claude may print nothing before its run is stopped."`
	Warm           string        `name:"warm" group:"Claude:" var:"BLOOM_WARM" key:"warm" default:"auto" placeholder:"N" help:"Claude processes kept alive between tasks, 0 to 64, 185 to 260 MB each: the next task of a context starts immediately. auto: one per 2 GiB of the machine's memory, at most 8. 0: none. Linux only."`
	KeepAlive      int           `kong:"-"` // parsed from Warm; negative: auto
	UploadMaxMiB   int           `name:"upload-max-mib" group:"Files:" var:"BLOOM_UPLOAD_MAX_MIB" key:"upload_max_mib" default:"100" placeholder:"N" help:"Largest file that is uploaded as an artifact of a task, in MiB; 0 disables uploads."`
	UploadMaxFiles int           `name:"upload-max-files" group:"Files:" var:"BLOOM_UPLOAD_MAX_FILES" key:"upload_max_files" default:"100" placeholder:"N" help:"Most files that are uploaded for one run, at most 1000; 0 disables uploads."`
	Model          string        `name:"model" group:"Claude:" var:"BLOOM_MODEL" key:"model" placeholder:"NAME" help:"Model for claude; default: claude's own default."`
	PassEnv        []string      `name:"pass-env" group:"Claude:" var:"BLOOM_PASS_ENV" key:"pass_env" placeholder:"NAME" help:"Variable of the worker's environment to pass to claude (repeatable)."`
	LeaseTTL       time.Duration `name:"lease-ttl" group:"Tuning:" var:"BLOOM_LEASE_TTL" key:"lease_ttl" default:"5m" help:"How long a lease lasts without a heartbeat, 1s to 2h."`
	DrainGrace     time.Duration `name:"drain-grace" group:"Tuning:" var:"BLOOM_DRAIN_GRACE" key:"drain_grace" default:"30s" help:"How long running tasks may take to finish when the worker stops; then they are released."`
	// AnnounceEvery is here and not in Announcement because it also applies to the worker in the
	// server's process.
	AnnounceEvery time.Duration `name:"membridge-interval" group:"Tuning:" var:"BLOOM_MEMBRIDGE_INTERVAL" key:"membridge_interval" default:"10s" help:"How often the worker sends membridge a heartbeat, 1s to 1h."`
}

// Client configures which runtime to use, and the credentials.
type Client struct {
	URL     string `name:"url" aliases:"runtime-url" var:"BLOOM_RUNTIME_URL" key:"runtime_url" default:"http://127.0.0.1:5000" placeholder:"URL" help:"Address of the runtime."`
	APIKey  Secret `name:"api-key" var:"BLOOM_API_KEY" key:"api_key" hidden:"" help:"API key for the runtime; better given as a file."`
	KeyFile string `name:"key-file" var:"BLOOM_API_KEY_FILE" key:"api_key_file" placeholder:"FILE" help:"File with the API key for the runtime."`
	CAFile  string `name:"ca-file" var:"BLOOM_CA_FILE" key:"ca_file" placeholder:"FILE" help:"Certificate authority (PEM) for the runtime's certificate, the only one trusted; default: the system's."`
	Cert    string `name:"client-cert" var:"BLOOM_CLIENT_CERT" key:"client_cert" placeholder:"FILE" help:"Client certificate (PEM), for runtimes that require one of workers."`
	CertKey string `name:"client-key" var:"BLOOM_CLIENT_KEY" key:"client_key" placeholder:"FILE" help:"Private key of --client-cert (PEM)."`
}

// Membridge configures the control plane.
type Membridge struct {
	MembridgeAddress
	MembridgeAgents
	AgentTokens string `name:"membridge-agent-tokens" var:"BLOOM_MEMBRIDGE_AGENT_TOKENS" key:"membridge_agent_tokens" default:"optional" enum:"optional,required" help:"Whether agents need a token of their own besides the agent key: optional or required."`
	TLSCert     string `name:"membridge-tls-cert" var:"BLOOM_MEMBRIDGE_TLS_CERT" key:"membridge_tls_cert" placeholder:"FILE" help:"Certificate chain (PEM); enables https. Reloaded when it changes."`
	TLSKey      string `name:"membridge-tls-key" var:"BLOOM_MEMBRIDGE_TLS_KEY" key:"membridge_tls_key" placeholder:"FILE" help:"Private key of --membridge-tls-cert (PEM)."`
	// SyncAgentKey is described at membridge.Config.
	SyncAgentKey bool `name:"membridge-sync-agent-key" var:"BLOOM_MEMBRIDGE_SYNC_AGENT_KEY" key:"membridge_sync_agent_key" help:"Send the agent key in calls to the URLs of agents of the earlier system. Anyone who may register an agent can then read the key."`
}

// TokensRequired is the value of AgentTokens that requires a token.
const TokensRequired = "required"

// MembridgeAddress configures the control plane's address when it runs beside a server.
type MembridgeAddress struct {
	MembridgeListen string `name:"membridge-listen" var:"BLOOM_MEMBRIDGE_LISTEN" key:"membridge_listen" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address membridge listens on."`
	MembridgeHost   string `name:"membridge-host" var:"MEMBRIDGE_HOST" key:"membridge_host" placeholder:"HOST" help:"Host to listen on, unless --membridge-listen sets one."`
	MembridgePort   int    `name:"membridge-port" var:"MEMBRIDGE_PORT" key:"membridge_port" placeholder:"N" help:"Port to listen on, unless --membridge-listen sets one."`
}

// MembridgeAgents configures how agents authenticate.
type MembridgeAgents struct {
	AgentKey     Secret `name:"membridge-agent-key" var:"MEMBRIDGE_AGENT_KEY" key:"membridge_agent_key" hidden:"" help:"Key of agents for membridge; better given as a file."`
	AgentKeyFile string `name:"membridge-agent-key-file" var:"MEMBRIDGE_AGENT_KEY_FILE" key:"membridge_agent_key_file" placeholder:"FILE" help:"File with the key of agents for membridge."`
}

// Announcement configures the control plane that a worker registers with besides the runtime.
type Announcement struct {
	MembridgeAgents
	MembridgeURL          string `name:"membridge-url" aliases:"membridge-server-url" var:"MEMBRIDGE_SERVER_URL" key:"membridge_server_url" placeholder:"URL" help:"Address of membridge, which also provides the runtime's; without it the worker registers only with the runtime."`
	MembridgeAdminKey     Secret `name:"membridge-admin-key" var:"MEMBRIDGE_ADMIN_KEY" key:"membridge_admin_key" hidden:"" help:"Membridge's admin key, used without an agent key."`
	MembridgeAdminKeyFile string `name:"membridge-admin-key-file" var:"MEMBRIDGE_ADMIN_KEY_FILE" key:"membridge_admin_key_file" hidden:"" placeholder:"FILE" help:"File with membridge's admin key."`
	MembridgeTrust
}

// MembridgeTrust configures which certificates of membridge are trusted.
type MembridgeTrust struct {
	MembridgeCAFile string `name:"membridge-ca-file" var:"BLOOM_MEMBRIDGE_CA_FILE" key:"membridge_ca_file" placeholder:"FILE" help:"Certificate authority (PEM) for membridge's certificate, the only one trusted; default: the system's."`
}
