package traffic

import "time"

// SetMostConsumers sets how many consumers of a deployment and day are counted apart.
func SetMostConsumers(t *Traffic, most int) { t.most = most }

// SetSearchTime sets how long a search goes on.
func SetSearchTime(t *Traffic, limit time.Duration) { t.searchTime = limit }
