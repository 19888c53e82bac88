// SPDX-License-Identifier: Apache-2.0

// test/e2e/apiserver/resources.go - the resources of k8s.io/api that are served, each stored as it is.
package main

import (
	"context"
	"reflect"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
)

type resource struct {
	kind, plural string
	namespaced   bool
}

var groups = map[schema.GroupVersion][]resource{
	corev1.SchemeGroupVersion: {
		{"Node", "nodes", false}, {"Namespace", "namespaces", false}, {"Service", "services", true},
		{"Endpoints", "endpoints", true}, {"Pod", "pods", true}, {"ConfigMap", "configmaps", true},
		{"Secret", "secrets", true}, {"Event", "events", true}, {"ServiceAccount", "serviceaccounts", true},
	},
	appsv1.SchemeGroupVersion:         {{"DaemonSet", "daemonsets", true}},
	discoveryv1.SchemeGroupVersion:    {{"EndpointSlice", "endpointslices", true}},
	networkingv1.SchemeGroupVersion:   {{"NetworkPolicy", "networkpolicies", true}, {"ServiceCIDR", "servicecidrs", false}},
	coordinationv1.SchemeGroupVersion: {{"Lease", "leases", true}},
	rbacv1.SchemeGroupVersion: {
		{"ClusterRole", "clusterroles", false}, {"ClusterRoleBinding", "clusterrolebindings", false},
		{"Role", "roles", true}, {"RoleBinding", "rolebindings", true},
	},
	admissionv1.SchemeGroupVersion: {
		{"ValidatingAdmissionPolicy", "validatingadmissionpolicies", false},
		{"ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false},
	},
	flowcontrolv1.SchemeGroupVersion: {
		{"FlowSchema", "flowschemas", false}, {"PriorityLevelConfiguration", "prioritylevelconfigurations", false},
	},
}

var (
	scheme         = runtime.NewScheme()
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)
)

// The version that is served is also the internal one, so that nothing is converted.
func init() {
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme, coordinationv1.AddToScheme,
		rbacv1.AddToScheme, admissionv1.AddToScheme, flowcontrolv1.AddToScheme, internalversion.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	for gv := range groups {
		for kind, t := range scheme.KnownTypes(gv) {
			if strings.HasPrefix(t.PkgPath(), "k8s.io/api/") {
				internal := schema.GroupVersionKind{Group: gv.Group, Version: runtime.APIVersionInternal, Kind: kind}
				scheme.AddKnownTypeWithName(internal, reflect.New(t).Interface().(runtime.Object))
			}
		}
		utilruntime.Must(scheme.SetVersionPriority(gv))
	}
	utilruntime.Must(scheme.AddFieldLabelConversionFunc(corev1.SchemeGroupVersion.WithKind("Pod"),
		func(label, value string) (string, string, error) { return label, value, nil }))
	scheme.AddTypeDefaultingFunc(&admissionv1.ValidatingAdmissionPolicy{}, func(obj any) {
		completePolicy(&obj.(*admissionv1.ValidatingAdmissionPolicy).Spec)
	})
}

// completePolicy sets the defaults without which the plugin of policies fails.
func completePolicy(spec *admissionv1.ValidatingAdmissionPolicySpec) {
	equivalent, match := admissionv1.Equivalent, spec.MatchConstraints
	if match == nil {
		return
	}
	if match.MatchPolicy == nil {
		match.MatchPolicy = &equivalent
	}
	if match.NamespaceSelector == nil {
		match.NamespaceSelector = &metav1.LabelSelector{}
	}
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
}

// part returns obj's field "Spec" or "Status", if it has one.
func part(obj runtime.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

// strategy is that of an object, or of its status: an update leaves the other part as it was.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	namespaced bool
	kept       string // "Status", or "Spec" for /status
}

func (s strategy) NamespaceScoped() bool { return s.namespaced }
func (s strategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if value := part(obj, s.kept); value.IsValid() {
		value.Set(part(old, s.kept))
	}
}
func (strategy) PrepareForCreate(context.Context, runtime.Object)         {}
func (strategy) Validate(context.Context, runtime.Object) field.ErrorList { return nil }
func (strategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}
func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
func (strategy) Canonicalize(runtime.Object)    {}
func (s strategy) AllowCreateOnUpdate() bool    { return false }
func (strategy) AllowUnconditionalUpdate() bool { return true }

// selectable returns the fields that a selector of obj may name.
func selectable(obj runtime.Object) fields.Set {
	accessor, _ := meta.Accessor(obj)
	set := fields.Set{"metadata.name": accessor.GetName(), "metadata.namespace": accessor.GetNamespace()}
	if pod, ok := obj.(*corev1.Pod); ok {
		set["spec.nodeName"] = pod.Spec.NodeName
		set["spec.hostNetwork"] = strconv.FormatBool(pod.Spec.HostNetwork)
		set["status.phase"] = string(pod.Status.Phase)
		set["status.podIP"] = pod.Status.PodIP
	}
	return set
}

func attributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	return accessor.GetLabels(), selectable(obj), nil
}

func predicate(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: attributes}
}

func create(gv schema.GroupVersion, kind string) func() runtime.Object {
	return func() runtime.Object {
		obj, err := scheme.New(gv.WithKind(kind))
		utilruntime.Must(err)
		return obj
	}
}

func newStore(gv schema.GroupVersion, r resource, getter generic.RESTOptionsGetter) (*registry.Store, error) {
	of := strategy{scheme, names.SimpleNameGenerator, r.namespaced, "Status"}
	store := &registry.Store{
		NewFunc:                   create(gv, r.kind),
		NewListFunc:               create(gv, r.kind+"List"),
		PredicateFunc:             predicate,
		DefaultQualifiedResource:  schema.GroupResource{Group: gv.Group, Resource: r.plural},
		SingularQualifiedResource: schema.GroupResource{Group: gv.Group, Resource: strings.ToLower(r.kind)},
		CreateStrategy:            of,
		UpdateStrategy:            of,
		DeleteStrategy:            of,
		TableConvertor:            rest.NewDefaultTableConvertor(schema.GroupResource{Group: gv.Group, Resource: r.plural}),
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter, AttrFunc: attributes})
}

// statusREST is /status of a resource.
type statusREST struct{ store *registry.Store }

func (r *statusREST) New() runtime.Object { return r.store.New() }
func (r *statusREST) Destroy()            {}
func (r *statusREST) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, o)
}
func (r *statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, check rest.ValidateObjectFunc,
	checkUpdate rest.ValidateObjectUpdateFunc, _ bool, o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, check, checkUpdate, false, o)
}
func (r *statusREST) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, obj, options)
}

func addResource(into map[string]rest.Storage, gv schema.GroupVersion, r resource, getter generic.RESTOptionsGetter) error {
	store, err := newStore(gv, r, getter)
	if err != nil {
		return err
	}
	into[r.plural] = store
	if part(store.New(), "Status").IsValid() {
		status := *store
		status.UpdateStrategy = strategy{scheme, names.SimpleNameGenerator, r.namespaced, "Spec"}
		into[r.plural+"/status"] = &statusREST{&status}
	}
	return nil
}

func install(s *server.GenericAPIServer, etcd serveroptions.EtcdOptions, config *server.RecommendedConfig) error {
	versions := []schema.GroupVersion{}
	for gv := range groups {
		versions = append(versions, gv)
	}
	etcd.StorageConfig.Codec = codecs.LegacyCodec(versions...)
	etcd.StorageConfig.StorageObjectCountTracker = config.StorageObjectCountTracker
	factory := &serveroptions.SimpleStorageFactory{StorageConfig: etcd.StorageConfig}
	getter := etcd.CreateRESTOptionsGetter(factory, config.ResourceTransformers)
	for gv, resources := range groups {
		group := server.NewDefaultAPIGroupInfo(gv.Group, scheme, parameterCodec, codecs)
		into := map[string]rest.Storage{}
		for _, r := range resources {
			if err := addResource(into, gv, r, getter); err != nil {
				return err
			}
		}
		group.VersionedResourcesStorageMap[gv.Version] = into
		add := s.InstallAPIGroup
		if gv.Group == "" {
			add = func(group *server.APIGroupInfo) error { return s.InstallLegacyAPIGroup("/api", group) }
		}
		if err := add(&group); err != nil {
			return err
		}
	}
	return nil
}
