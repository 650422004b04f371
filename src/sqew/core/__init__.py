"""The core: operations on queues are checked, batched, executed and waited for here, above the stores."""
