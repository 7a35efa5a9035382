"""What happens while people review: see `leafwise.review.workbench`."""
