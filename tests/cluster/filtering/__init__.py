"""Random clusters that compare Fairlead's node filter with kube-scheduler's filter plugins."""
