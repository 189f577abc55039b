package cli

import (
	"fmt"
	"path/filepath"

	"github.com/bloom-runtime/bloom/internal/app"
	"github.com/bloom-runtime/bloom/internal/config"
	"github.com/bloom-runtime/bloom/internal/membridge"
)

type membridgeCmd struct {
	config.Data
	config.MembridgeAgents
	config.Rates
	config.Connections
	// The flag names are short when the control plane runs alone; the settings are the same.
	Listen       string        `name:"listen" aliases:"membridge-listen" var:"BLOOM_MEMBRIDGE_LISTEN" key:"membridge_listen" default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address membridge listens on."`
	Host         string        `name:"host" aliases:"membridge-host" var:"MEMBRIDGE_HOST" key:"membridge_host" placeholder:"HOST" help:"Host to listen on, unless --listen sets one."`
	Port         int           `name:"port" aliases:"membridge-port" var:"MEMBRIDGE_PORT" key:"membridge_port" placeholder:"N" help:"Port to listen on, unless --listen sets one."`
	AgentTokens  string        `name:"agent-tokens" aliases:"membridge-agent-tokens" var:"BLOOM_MEMBRIDGE_AGENT_TOKENS" key:"membridge_agent_tokens" default:"optional" enum:"optional,required" help:"Whether agents need a token of their own besides the agent key: optional or required."`
	SyncAgentKey bool          `name:"sync-agent-key" aliases:"membridge-sync-agent-key" var:"BLOOM_MEMBRIDGE_SYNC_AGENT_KEY" key:"membridge_sync_agent_key" help:"Send the agent key in calls to the URLs of agents of the earlier system. Anyone who may register an agent can then read the key."`
	AdminKey     config.Secret `name:"membridge-admin-key" var:"MEMBRIDGE_ADMIN_KEY" key:"membridge_admin_key" hidden:"" help:"Membridge's admin key; better given as a file."`
	AdminKeyFile string        `name:"membridge-admin-key-file" var:"MEMBRIDGE_ADMIN_KEY_FILE" key:"membridge_admin_key_file" placeholder:"FILE" help:"File with membridge's admin key."`
	DatabaseURL  config.Secret `name:"database-url" var:"DATABASE_URL" key:"database_url" placeholder:"URL" help:"PostgreSQL database; without it SQLite in the data directory."`
	TLSCert      string        `name:"tls-cert" aliases:"membridge-tls-cert" var:"BLOOM_MEMBRIDGE_TLS_CERT" key:"membridge_tls_cert" placeholder:"FILE" help:"Certificate chain (PEM); enables https. Reloaded when it changes."`
	TLSKey       string        `name:"tls-key" aliases:"membridge-tls-key" var:"BLOOM_MEMBRIDGE_TLS_KEY" key:"membridge_tls_key" placeholder:"FILE" help:"Private key of --tls-cert (PEM)."`
	RuntimeURL   string        `name:"runtime-url" aliases:"url" var:"BLOOM_RUNTIME_URL" key:"runtime_url" placeholder:"URL" help:"Address of the runtime that agents are given."`
}

func (c *membridgeCmd) Run(inv *invocation) error {
	settings := config.Membridge{
		MembridgeAddress: config.MembridgeAddress{MembridgeListen: c.Listen, MembridgeHost: c.Host, MembridgePort: c.Port},
		MembridgeAgents:  c.MembridgeAgents,
		AgentTokens:      c.AgentTokens,
		TLSCert:          c.TLSCert,
		TLSKey:           c.TLSKey,
		SyncAgentKey:     c.SyncAgentKey,
	}
	if err := settings.Finish(inv.sources); err != nil {
		return usage(err)
	}
	if err := c.Rates.Finish(); err != nil {
		return usage(err)
	}
	if err := c.Connections.Finish(); err != nil {
		return usage(err)
	}
	if err := config.ReadKey("--membridge-admin-key-file", "MEMBRIDGE_ADMIN_KEY", &c.AdminKey, c.AdminKeyFile); err != nil {
		return usage(err)
	}
	if c.RuntimeURL != "" {
		if err := config.CheckURL(c.RuntimeURL); err != nil {
			return usage(fmt.Errorf("--runtime-url: %w", err))
		}
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return usage(err)
	}
	build, err := inv.build("membridge")
	if err != nil {
		return err
	}
	m, err := app.OpenMembridge(inv.ctx, app.MembridgeConfig{Membridge: settings, Rates: c.Rates, Connections: c.Connections, Private: false, DataDir: dir,
		DatabaseURL: string(c.DatabaseURL), AdminKey: string(c.AdminKey), RuntimeURL: c.RuntimeURL, Open: nil, ListenFlag: "--listen"}, build)
	if err != nil {
		return err
	}
	inv.bridgeBanner(m)
	inv.say("Membridge listens at %s, data in %s", m.URL(), dir)
	return closing(m.Run(inv.ctx, inv.cut), m)
}

// bridgeBanner warns when no key is required, or when every request is refused.
func (inv *invocation) bridgeBanner(m *app.Membridge) {
	p := inv.outPainter()
	const set = "\n  To set one:  export MEMBRIDGE_ADMIN_KEY=$(openssl rand -hex 32)"
	switch m.Mode() {
	case membridge.ModeDevelopment:
		fmt.Fprintln(inv.Out, p.paint(styleYellow, "DEVELOPMENT MODE: no key is set; everyone logged in to this machine may do everything."+set))
	case membridge.ModeUnset:
		fmt.Fprintln(inv.Out, p.paint(styleRed, "NO ADMIN KEY: all requests are refused with 500, except health and those of agents with MEMBRIDGE_AGENT_KEY."+set))
	case membridge.ModeKeys:
	}
}
