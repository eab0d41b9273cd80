"""What the model is shown of a conversation: its window, the estimate of its tokens, its compaction, and notes."""
