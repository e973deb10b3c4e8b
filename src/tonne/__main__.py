from tonne.cli.main import main

main()
