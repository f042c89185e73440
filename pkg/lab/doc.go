// Package lab brings a hub and real clusters up on one machine, without containers: the code behind `nave lab`, and what
// the end-to-end tests drive (D11).
//
// A lab is a folder. In it, every part is a detached child process of the same binary:
//
//	nave hub                          --data-dir DIR/hub --listen 127.0.0.1:PORT
//	nave lab-kube-apiserver           --cluster cluster1 --data-dir DIR/cluster1 --listen 127.0.0.1:PORT
//	nave lab-kube-controller-manager  --cluster cluster1 --data-dir DIR/cluster1 --nodes 2
//	nave agent                        --data-dir DIR/agent-cluster1 --kubeconfig DIR/cluster1.kubeconfig --server https://…
//	                                  --cluster-name cluster1 --token-file DIR/cluster1/join-token
//
// The two verbs with lab in their name are hidden; they wrap RunKubeAPIServer and RunKubeControllerManager. A managed
// cluster is two processes rather than four: etcd lives in the one of the kube-apiserver, where it needs no port and no
// certificates, and the simulated nodes in the one of the kube-controller-manager, since each further process of this
// binary costs a third of a second and 80 MB.
//
// DIR/lab.json tells what belongs to the lab. It is written before each start and after it, so at any moment it is enough
// to take the lab down or to bring it up again.
package lab
