package matrix

// What each identity may do at the hub. Everything that is not here is refused; whatever discovery reports and this page
// does not name fails the test.
//
//	identity    who that is                                          what it may do
//	─────────── ──────────────────────────────────────────────────── ────────────────────────────────────────────────────────
//	anonymous   anybody who reaches the port                         read health, version, the CA, kube-public/cluster-info
//	joining     an agent with a join token for its cluster           create its ManagedCluster and its signing request, and
//	                                                                 see what becomes of both; read cluster-info
//	bootstrap   a klusterlet with a standard bootstrap token, or     the same, for a cluster that it names in each request
//	            the bootstrap service account
//	pending     an agent with a certificate whose cluster is not     nothing, but to ask what it may do
//	            accepted (an administrator approved only the request)
//	rejected    an agent whose cluster was accepted and then denied  read its own ManagedCluster, which says that it is denied
//	agent       an agent of an accepted cluster                      in its own namespace: read and update works and their
//	                                                                 status, read add-ons and write their status, keep its
//	                                                                 lease, write events; its own ManagedCluster: read, update,
//	                                                                 write its status; signing requests: create, and read those
//	                                                                 of its own cluster
//
// Everyone but anonymous may discover the API and ask about their own identity and rights. Administrators may do everything.

// who is an identity of the table.
type who string

const (
	anonymous who = "anonymous"
	joining   who = "joining"
	bootstrap who = "bootstrap"
	pending   who = "pending"
	rejected  who = "rejected"
	agent     who = "agent"
)

// where is what a request is about, seen from the identity's own cluster. The object of a resource outside of namespaces is
// its cluster's own, another one's, or none in particular.
type where string

const (
	own    where = "its own"
	other  where = "another cluster's"
	system where = "the hub's" // namespace kube-system
	public where = "public"    // namespace kube-public
	all    where = "all"       // every namespace, or no object in particular
)

// grant is one line of what an identity may do with a resource.
type grant struct {
	who   []who
	where []where
	verbs string
}

func may(verbs string, where []where, who ...who) grant { return grant{who, where, verbs} }

func in(places ...where) []where { return places }

// rights has a row for every resource that the hub serves, of whatever version.
func rights() map[string][]grant {
	rows := map[string][]grant{}
	asking := []who{joining, bootstrap, pending, rejected, agent}
	for resource, row := range map[string][]grant{
		"managedclusters.cluster.open-cluster-management.io": {
			may("get list watch update", in(own), agent),
			may("get list watch", in(own), rejected),
			may("get list watch", in(own), joining),
			may("get list watch", in(own, other), bootstrap), // each with the name of one cluster
			may("create", in(all), joining, bootstrap),
		},
		"managedclusters/status.cluster.open-cluster-management.io": {may("patch update", in(own), agent)},
		"certificatesigningrequests.certificates.k8s.io": {
			may("create", in(all), agent, joining, bootstrap),
			may("get", in(own), agent),
			// What a list holds is narrowed to the cluster's own: TestAgentsSeeOnlyTheirOwnRequests.
			may("list watch", in(own, other, all), agent),
			may("get list watch", in(own), joining),
			may("get list watch", in(own, other), bootstrap), // each with the label of one cluster
		},
		"manifestworks.work.open-cluster-management.io":                {may("get list watch update patch", in(own), agent)},
		"manifestworks/status.work.open-cluster-management.io":         {may("patch update", in(own), agent)},
		"managedclusteraddons.addon.open-cluster-management.io":        {may("get list watch", in(own), agent)},
		"managedclusteraddons/status.addon.open-cluster-management.io": {may("patch update", in(own), agent)},
		"leases.coordination.k8s.io":                                   {may("get list watch update", in(own), agent)},
		"events":                                                       {may("create patch update", in(own), agent)},
		"events.events.k8s.io":                                         {may("create patch update", in(own), agent)},
		"configmaps": {
			may("get", in(public), anonymous, joining, bootstrap),
		},
		"selfsubjectreviews.authentication.k8s.io":      {may("create", in(all), asking...)},
		"selfsubjectaccessreviews.authorization.k8s.io": {may("create", in(all), asking...)},
		"selfsubjectrulesreviews.authorization.k8s.io":  {may("create", in(all), asking...)},
	} {
		rows[resource] = row
	}
	for _, resource := range administrators() {
		rows[resource] = nil
	}
	return rows
}

// administrators are the resources that are nobody's but theirs and the hub's own.
func administrators() []string {
	return []string{
		"addondeploymentconfigs.addon.open-cluster-management.io",
		"addontemplates.addon.open-cluster-management.io",
		"clustermanagementaddons.addon.open-cluster-management.io",
		"clustermanagementaddons/status.addon.open-cluster-management.io",
		"mutatingadmissionpolicies.admissionregistration.k8s.io",
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"validatingadmissionpolicies.admissionregistration.k8s.io",
		"validatingadmissionpolicies/status.admissionregistration.k8s.io",
		"validatingadmissionpolicybindings.admissionregistration.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io",
		"customresourcedefinitions.apiextensions.k8s.io",
		"customresourcedefinitions/status.apiextensions.k8s.io",
		"apiservices.apiregistration.k8s.io",
		"apiservices/status.apiregistration.k8s.io",
		"tokenreviews.authentication.k8s.io",
		"localsubjectaccessreviews.authorization.k8s.io",
		"subjectaccessreviews.authorization.k8s.io",
		"certificatesigningrequests/approval.certificates.k8s.io",
		"certificatesigningrequests/status.certificates.k8s.io",
		"clustertrustbundles.certificates.k8s.io",
		"addonplacementscores.cluster.open-cluster-management.io",
		"addonplacementscores/status.cluster.open-cluster-management.io",
		"placementdecisions.cluster.open-cluster-management.io",
		"placementdecisions/status.cluster.open-cluster-management.io",
		"placements.cluster.open-cluster-management.io",
		"placements/status.cluster.open-cluster-management.io",
		"managedclustersetbindings.cluster.open-cluster-management.io",
		"managedclustersetbindings/status.cluster.open-cluster-management.io",
		"managedclustersets.cluster.open-cluster-management.io",
		"managedclustersets/status.cluster.open-cluster-management.io",
		"flowschemas.flowcontrol.apiserver.k8s.io",
		"flowschemas/status.flowcontrol.apiserver.k8s.io",
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
		"prioritylevelconfigurations/status.flowcontrol.apiserver.k8s.io",
		"clustermanagers.operator.open-cluster-management.io",
		"clustermanagers/status.operator.open-cluster-management.io",
		"clusterrolebindings.rbac.authorization.k8s.io",
		"clusterroles.rbac.authorization.k8s.io",
		"rolebindings.rbac.authorization.k8s.io",
		"roles.rbac.authorization.k8s.io",
		"namespaces",
		"namespaces/finalize",
		"namespaces/status",
		"resourcequotas",
		"resourcequotas/status",
		"secrets",
		"serviceaccounts",
		"serviceaccounts/token",
		"manifestworkreplicasets.work.open-cluster-management.io",
		"manifestworkreplicasets/status.work.open-cluster-management.io",
	}
}

// paths are what is served besides resources: who may read it. A row that ends with a slash is for all paths below.
func paths() map[string][]who {
	everyone := []who{anonymous, joining, bootstrap, pending, rejected, agent}
	known := everyone[1:]
	return map[string][]who{
		"/healthz": everyone, "/livez": everyone, "/readyz": everyone, "/version": everyone, "/cacerts": everyone,
		"/healthz/": nil, "/livez/": nil, "/readyz/": nil,
		"/api": known, "/api/": known, "/apis": known, "/apis/": known, "/openapi/": known,
		"/": nil, "/.well-known/": nil, "/openid/": nil, "/metrics": nil, "/metrics/": nil, "/statusz": nil, "/flagz": nil, "/configz": nil,
		"/debug/": nil, "/logs/": nil, "/ui/": nil, "/exec/": nil, "/run/": nil, "/proxy/": nil,
	}
}

// virtual are rights that only reviews speak of (spec 0.3): group, resource/subresource, name, verb, and who has it.
func virtual() []virtualRight {
	const register, cluster, work, certificates, rbac = "register.open-cluster-management.io", "cluster.open-cluster-management.io",
		"work.open-cluster-management.io", "certificates.k8s.io", "rbac.authorization.k8s.io"
	return []virtualRight{
		{register, "managedclusters", "clientcertificates", own, "renew", []who{agent}},
		{register, "managedclusters", "clientcertificates", other, "renew", nil},
		{register, "managedclusters", "accept", own, "update", nil},
		{register, "managedclusters", "accept", other, "update", nil},
		{cluster, "managedclustersets", "join", "default", "create", []who{joining, bootstrap}},
		{cluster, "managedclustersets", "bind", "default", "create", nil},
		{work, "manifestworks", "execute-as", "system:serviceaccount:default:default", "execute-as", nil},
		{certificates, "signers", "", "kubernetes.io/kube-apiserver-client", "approve", nil},
		{certificates, "signers", "", "kubernetes.io/kube-apiserver-client", "sign", nil},
		{certificates, "signers", "", "kubernetes.io/*", "approve", nil},
		{rbac, "clusterroles", "", "cluster-admin", "bind", nil},
		{rbac, "clusterroles", "", "cluster-admin", "escalate", nil},
		{"", "users", "", "nave-admin", "impersonate", nil},
		{"", "groups", "", "system:masters", "impersonate", nil},
		{"", "serviceaccounts", "", "default", "impersonate", nil},
	}
}

// virtualRight is a row of virtual. name is own or other for the names of clusters.
type virtualRight struct {
	group, resource, subresource string
	name                         where
	verb                         string
	who                          []who
}
