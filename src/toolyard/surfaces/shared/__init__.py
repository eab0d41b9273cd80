"""What several protocols share: threads, a followed run and its encoder, call ids, notices, and views."""
