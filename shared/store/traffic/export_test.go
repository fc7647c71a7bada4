package traffic

// SetMostConsumers sets how many consumers of a deployment and day are counted apart.
func SetMostConsumers(t *Traffic, most int) { t.most = most }
