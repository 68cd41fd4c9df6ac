"""Random clusters that compare the node filter of Fairlead with the filter plugins of kube-scheduler."""
