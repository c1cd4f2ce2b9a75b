"""What trials and tests need: real servers, the service, simulated machines, crafted ids, seeded bugs."""
