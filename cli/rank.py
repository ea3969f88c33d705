import click


@click.command()
def rank() -> None:
    """rank"""
