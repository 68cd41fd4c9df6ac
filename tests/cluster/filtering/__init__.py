"""Random clusters, on which our verdicts are held against those of kube-scheduler's own filters."""
