"""What pages are made of: tables as Markdown, pictures made of panels."""
