"""`/chat/v1/conversation`: a conversation whose tools run in the application that sends the requests."""
