package a2e

// The messages marshal as Encode writes them, so that json.Marshal cannot lose their type.

// MarshalJSON is [Encode].
func (m SpawnReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m SpawnResp) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m DelegateReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m DelegateResp) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m AwaitReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m AwaitResp) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m MessageReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m MessageResp) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m ListReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m ListResp) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m CancelReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m ExtendReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m TerminateReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m MergeReq) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m MergeResp) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m Event) MarshalJSON() ([]byte, error) { return Encode(&m) }

// MarshalJSON is [Encode].
func (m Error) MarshalJSON() ([]byte, error) { return Encode(&m) }
