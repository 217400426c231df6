package subjects

// The streams of a namespace. A stream's name is the namespace, "_" and what it holds.

// InboxStream holds the inboxes of all actors.
func (n Names) InboxStream() string { return n.Namespace() + "_inbox" }

// TimerStream holds schedules and what they fired.
func (n Names) TimerStream() string { return n.Namespace() + "_timer" }

// MailStream holds completions for owners outside.
func (n Names) MailStream() string { return n.Namespace() + "_mail" }

// JournalStream holds the journals of all actors.
func (n Names) JournalStream() string { return n.Namespace() + "_journal" }

// WorkStream holds jobs for workers elsewhere.
func (n Names) WorkStream() string { return n.Namespace() + "_work" }

// DeadStream holds dead letters.
func (n Names) DeadStream() string { return n.Namespace() + "_dead" }

// The buckets of a namespace: key-value buckets, and one object store.

// RegistryBucket holds an entry for each subagent, under [RegistryKey].
func (n Names) RegistryBucket() string { return n.Namespace() + "_registry" }

// AgentsBucket holds agent definitions.
func (n Names) AgentsBucket() string { return n.Namespace() + "_agents" }

// MemoryBucket holds memory spaces.
func (n Names) MemoryBucket() string { return n.Namespace() + "_memory" }

// EnvBucket holds scoped values.
func (n Names) EnvBucket() string { return n.Namespace() + "_env" }

// RequestsBucket holds requests for variables that are missing, under [RequestKey].
func (n Names) RequestsBucket() string { return n.Namespace() + "_requests" }

// FilesBucket holds the manifest of each thread's files.
func (n Names) FilesBucket() string { return n.Namespace() + "_files" }

// KeysBucket holds stored answers, under [IdempotencyKey].
func (n Names) KeysBucket() string { return n.Namespace() + "_keys" }

// LeasesBucket holds the leases of the partitions, under [LeaseKey], and what is fixed or counted
// for the namespace as a whole, under [ConfigKey] and [IDsKey].
func (n Names) LeasesBucket() string { return n.Namespace() + "_leases" }

// MembersBucket holds the live processes, under [MemberKey], and those that are about to end, under [LeavingKey].
func (n Names) MembersBucket() string { return n.Namespace() + "_members" }

// BlobsBucket is the object store of large values, by the digest of their content.
func (n Names) BlobsBucket() string { return n.Namespace() + "_blobs" }

// KVStream is the stream that a key-value bucket is kept in.
func KVStream(bucket string) string { return "KV_" + bucket }

// KVSubject is the subject that a key of a bucket is kept under. The key is one that this package
// spelled: it is not encoded again.
func KVSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// Released is where a member says, to whoever listens, that it has given a partition back.
func (n Names) Released() string { return n.prefix + "member.released" }
