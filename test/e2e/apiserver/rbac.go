// SPDX-License-Identifier: Apache-2.0

// test/e2e/apiserver/rbac.go - RBAC by the rules that this server holds.
package main

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
)

type rbac struct {
	clusterRoles    listers.ClusterRoleLister
	clusterBindings listers.ClusterRoleBindingLister
	roles           listers.RoleLister
	bindings        listers.RoleBindingLister
}

func newAuthorizer(factory informers.SharedInformerFactory) authorizer.Authorizer {
	of := factory.Rbac().V1()
	return &rbac{of.ClusterRoles().Lister(), of.ClusterRoleBindings().Lister(), of.Roles().Lister(), of.RoleBindings().Lister()}
}

func isSubject(subjects []rbacv1.Subject, who user.Info) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		switch s.Kind {
		case rbacv1.GroupKind:
			return slices.Contains(who.GetGroups(), s.Name)
		case rbacv1.ServiceAccountKind:
			return who.GetName() == "system:serviceaccount:"+s.Namespace+":"+s.Name
		}
		return who.GetName() == s.Name
	})
}

func (r *rbac) rulesOf(ref rbacv1.RoleRef, namespace string) []rbacv1.PolicyRule {
	if ref.Kind == "Role" {
		if role, err := r.roles.Roles(namespace).Get(ref.Name); err == nil {
			return role.Rules
		}
	} else if role, err := r.clusterRoles.Get(ref.Name); err == nil {
		return role.Rules
	}
	return nil
}

func (r *rbac) rules(who user.Info, namespace string) (rules []rbacv1.PolicyRule) {
	everywhere, _ := r.clusterBindings.List(labels.Everything())
	for _, b := range everywhere {
		if isSubject(b.Subjects, who) {
			rules = append(rules, r.rulesOf(b.RoleRef, "")...)
		}
	}
	if namespace == "" {
		return rules
	}
	here, _ := r.bindings.RoleBindings(namespace).List(labels.Everything())
	for _, b := range here {
		if isSubject(b.Subjects, who) {
			rules = append(rules, r.rulesOf(b.RoleRef, namespace)...)
		}
	}
	return rules
}

func wanted(a authorizer.Attributes) rbacv1.PolicyRule {
	if !a.IsResourceRequest() {
		return rbacv1.PolicyRule{Verbs: []string{a.GetVerb()}, NonResourceURLs: []string{a.GetPath()}}
	}
	resource := strings.TrimSuffix(a.GetResource()+"/"+a.GetSubresource(), "/")
	rule := rbacv1.PolicyRule{Verbs: []string{a.GetVerb()}, APIGroups: []string{a.GetAPIGroup()}, Resources: []string{resource}}
	if a.GetName() != "" {
		rule.ResourceNames = []string{a.GetName()}
	}
	return rule
}

func (r *rbac) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if slices.Contains(a.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	covered, _ := validation.Covers(r.rules(a.GetUser(), a.GetNamespace()), []rbacv1.PolicyRule{wanted(a)})
	if covered {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no rule of RBAC allows this", nil
}
