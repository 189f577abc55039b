package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql" // its driver
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/tools/sql"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	plugin    = "postgres12"
	namespace = "bench"
)

// server is Temporal's services in this process, and a client of them.
type server struct {
	options
	temporal temporal.Server
	client   client.Client
}

func serve(ctx context.Context, o options) (*server, error) {
	for database, schema := range map[string]string{
		"temporal": "postgresql/v12/temporal", "temporal_visibility": "postgresql/v12/visibility",
	} {
		if err := install(o, database, schema); err != nil {
			return nil, fmt.Errorf("database %s: %w", database, err)
		}
	}
	frontend, services, err := services()
	if err != nil {
		return nil, err
	}
	t, err := temporal.NewServer(
		temporal.WithConfig(configuration(o, frontend, services)),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithLogger(log.NewNoopLogger()),
		// Its limits on requests are for services that many share.
		temporal.WithDynamicConfigClient(dynamicconfig.StaticClient{
			dynamicconfig.MakeKey("frontend.rps"): 1000000, dynamicconfig.MakeKey("frontend.namespaceRPS"): 1000000, dynamicconfig.MakeKey("frontend.persistenceMaxQPS"): 1000000,
			dynamicconfig.MakeKey("history.rps"): 1000000, dynamicconfig.MakeKey("history.persistenceMaxQPS"): 1000000,
			dynamicconfig.MakeKey("matching.rps"): 1000000, dynamicconfig.MakeKey("matching.persistenceMaxQPS"): 1000000,
		}),
	)
	if err != nil {
		return nil, err
	}
	if err := t.Start(); err != nil {
		return nil, err
	}
	s := &server{options: o, temporal: t}
	if err := s.connect(ctx, frontend); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// install makes a database and Temporal's tables in it, with Temporal's own tool.
func install(o options, database, schema string) error {
	at := []string{
		"temporal-sql-tool", "--plugin", plugin, "--endpoint", o.host, "--port", strconv.Itoa(o.port),
		"--user", o.user, "--database", database,
	}
	for _, command := range [][]string{
		{"create-database"}, {"setup-schema", "--version", "0.0"}, {"update-schema", "--schema-name", schema},
	} {
		if err := sql.RunTool(append(at[:len(at):len(at)], command...)); err != nil {
			return err
		}
	}
	return nil
}

// services chooses free ports, and returns the frontend's address.
func services() (string, map[string]config.Service, error) {
	all := map[string]config.Service{}
	var frontend string
	for _, name := range temporal.DefaultServices {
		rpc, err := freePort()
		if err != nil {
			return "", nil, err
		}
		membership, err := freePort()
		if err != nil {
			return "", nil, err
		}
		all[name] = config.Service{RPC: config.RPC{GRPCPort: rpc, MembershipPort: membership, BindOnLocalHost: true}}
		if name == "frontend" {
			frontend = net.JoinHostPort("127.0.0.1", strconv.Itoa(rpc))
		}
	}
	return frontend, all, nil
}

// freePort is one below 32768: Temporal keeps them as 16 bits with a sign.
func freePort() (int, error) {
	for range 100 {
		port := 10000 + rand.IntN(22000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port found")
}

func configuration(o options, frontend string, services map[string]config.Service) *config.Config {
	store := func(database string, connections int) config.DataStore {
		return config.DataStore{SQL: &config.SQL{
			PluginName: plugin, DatabaseName: database, ConnectAddr: net.JoinHostPort(o.host, strconv.Itoa(o.port)),
			ConnectProtocol: "tcp", User: o.user, MaxConns: connections, MaxIdleConns: connections, MaxConnLifetime: time.Hour,
		}}
	}
	off := config.ArchivalNamespaceDefaults{
		History:    config.HistoryArchivalNamespaceDefaults{State: "disabled"},
		Visibility: config.VisibilityArchivalNamespaceDefaults{State: "disabled"},
	}
	return &config.Config{
		Global: config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"}},
		Persistence: config.Persistence{
			DefaultStore: "history", VisibilityStore: "visibility", NumHistoryShards: int32(o.shards),
			DataStores: map[string]config.DataStore{
				"history": store("temporal", 32), "visibility": store("temporal_visibility", 8),
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{
				"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            services,
		Archival: config.Archival{
			History: config.HistoryArchival{State: "disabled"}, Visibility: config.VisibilityArchival{State: "disabled"},
		},
		PublicClient:      config.PublicClient{HostPort: frontend},
		NamespaceDefaults: config.NamespaceDefaults{Archival: off},
	}
}

// connect waits until the namespace can be used.
func (s *server) connect(ctx context.Context, frontend string) error {
	ctx, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	c, err := client.NewLazyClient(client.Options{HostPort: frontend, Namespace: namespace, Logger: quiet{}})
	if err != nil {
		return err
	}
	s.client = c
	for {
		_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
			Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
		})
		var there *serviceerror.NamespaceAlreadyExists
		if err == nil || errors.As(err, &there) {
			break
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	for {
		// A new namespace is known everywhere only after some seconds.
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "nobody", WorkflowExecutionTimeout: time.Second}, empty)
		if err == nil {
			return c.TerminateWorkflow(ctx, run.GetID(), "", "")
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (s *server) stop() {
	if s.client != nil {
		s.client.Close()
	}
	_ = s.temporal.Stop()
}

// version is the server's, as it was built in here.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "go.temporal.io/server" {
			return m.Version
		}
	}
	return ""
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quiet drops the client's log: what goes wrong is returned.
type quiet struct{}

var _ sdklog.Logger = quiet{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
