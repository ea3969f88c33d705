import click


@click.command()
def compare() -> None:
    """compare"""
