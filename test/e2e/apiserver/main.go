// SPDX-License-Identifier: Apache-2.0

// test/e2e/apiserver/main.go - an API server of Kubernetes' own libraries: k8s.io/apiextensions-apiserver
// with CRDs, and beside it the resources of resources.go, which agents follow and write. It has
// RBAC, ValidatingAdmissionPolicies, priority and fairness. Values of core types are neither
// validated nor completed, since that is code of k8s.io/kubernetes.
//
// A bearer token is the name of its user, or NAME@NODE for an agent on a node. NAME@NODE@SECRET is
// valid while that Secret of kube-system exists, as a token bound to it. $ADMIN may do all, and so
// may system:masters of a client certificate of $CLIENT_CA.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"monokube/openapi"

	"github.com/spf13/cobra"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	crdopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	policy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	discovery "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	namer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/cli"
	"k8s.io/kube-openapi/pkg/common"

	"go.opentelemetry.io/otel/trace/noop"
)

// tokens reads the Secrets that tokens are bound to.
type tokens struct{ client kubernetes.Interface }

func (t tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	name, node, isBound := strings.Cut(token, "@")
	node, secret, hasSecret := strings.Cut(node, "@")
	if hasSecret {
		if _, err := t.client.CoreV1().Secrets("kube-system").Get(ctx, secret, metav1.GetOptions{}); err != nil {
			return nil, false, err
		}
	}
	who := &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
	if name == os.Getenv("ADMIN") {
		who.Groups = append(who.Groups, user.SystemPrivilegedGroup)
	}
	if isBound {
		who.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
	}
	return &authenticator.Response{User: who}, true, nil
}

func authentication(config *server.RecommendedConfig, client kubernetes.Interface) error {
	config.Authentication.Authenticator = bearertoken.New(tokens{client})
	file := os.Getenv("CLIENT_CA")
	if file == "" {
		return nil
	}
	authority, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		return err
	}
	certificates := x509.NewDynamic(authority.VerifyOptions, x509.CommonNameUserConversion)
	config.Authentication.Authenticator = union.New(certificates, config.Authentication.Authenticator)
	return config.Authentication.ApplyClientCert(authority, config.SecureServing)
}

func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := crdopenapi.GetOpenAPIDefinitions(ref)
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		all[name] = definition
	}
	return all
}

// admission sets the authentication and the chain: namespaces have to exist, and ValidatingAdmissionPolicies hold. Their
// plugins, RBAC, and priority and fairness read this server's own objects.
func admission(o *serveroptions.RecommendedOptions, config *server.RecommendedConfig) error {
	client, err := kubernetes.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return err
	}
	if err := authentication(config, client); err != nil {
		return err
	}
	config.ClientConfig = config.LoopbackClientConfig
	config.SharedInformerFactory = informers.NewSharedInformerFactory(client, 10*time.Minute)
	config.Authorization.Authorizer = newAuthorizer(config.SharedInformerFactory)
	if err := serveroptions.NewFeatureOptions().ApplyTo(&config.Config, client, config.SharedInformerFactory); err != nil {
		return err
	}
	chain := serveroptions.NewAdmissionOptions()
	chain.RecommendedPluginOrder = []string{lifecycle.PluginName, policy.PluginName}
	return chain.ApplyTo(&config.Config, config.SharedInformerFactory, client, dynamicClient, o.FeatureGate, config.EffectiveVersion)
}

func configure(o *options.CustomResourceDefinitionsServerOptions) (*apiserver.Config, error) {
	config := server.NewRecommendedConfig(apiserver.Codecs)
	if err := o.ServerRunOptions.ApplyTo(&config.Config); err != nil {
		return nil, err
	}
	recommended := o.RecommendedOptions
	chain := recommended.Admission
	recommended.Authentication, recommended.Authorization, recommended.CoreAPI = nil, nil, nil
	recommended.Features, recommended.Admission = nil, nil // admission() has them
	if err := recommended.ApplyTo(config); err != nil {
		return nil, err
	}
	recommended.Admission = chain
	if err := admission(recommended, config); err != nil {
		return nil, err
	}
	if err := o.APIEnablement.ApplyTo(&config.Config, apiserver.DefaultAPIResourceConfigSource(), apiserver.Scheme); err != nil {
		return nil, err
	}
	names := namer.NewDefinitionNamer(apiserver.Scheme, scheme)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, names)
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, names)
	return &apiserver.Config{GenericConfig: config, ExtraConfig: apiserver.ExtraConfig{
		CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(*recommended.Etcd, config.ResourceTransformers, config.StorageObjectCountTracker),
		AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, noop.NewTracerProvider()),
	}}, nil
}

func run(ctx context.Context, o *options.CustomResourceDefinitionsServerOptions) error {
	if err := o.Complete(); err != nil {
		return err
	}
	config, err := configure(o)
	if err != nil {
		return err
	}
	made, err := config.Complete().New(server.NewEmptyDelegate())
	if err != nil {
		return err
	}
	s := made.GenericAPIServer
	if err := install(s, *o.RecommendedOptions.Etcd, config.GenericConfig); err != nil {
		return err
	}
	all := discovery.WrapAggregatedDiscoveryToHandler(s.DiscoveryGroupManager, s.AggregatedDiscoveryGroupManager, nil)
	s.Handler.GoRestfulContainer.Add(all.GenerateWebService("/apis", metav1.APIGroupList{}))
	return s.PrepareRun().RunWithContext(ctx)
}

func main() {
	o := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	command := &cobra.Command{
		Use: "apiserver",
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.ServerRunOptions.ComponentGlobalsRegistry.Set()
		},
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), o) },
	}
	command.SetContext(server.SetupSignalContext())
	o.AddFlags(command.Flags())
	os.Exit(cli.Run(command))
}
