import click


@click.command()
def runs() -> None:
    """runs"""


show = pairs = runs
